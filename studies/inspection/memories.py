"""The page of a run's feed-forward memories: statistics of each layer, their plots, and a file to browse.

    python -m studies.inspection.memories --workdir=pretrained/multi30k --out=docs/results/memories
    python -m studies.inspection.memories --workdir=runs/base --data=folder:novels@validation --limit=2000 --out=...

What memories are, and how they are read: `lwt/inspect/ffn_memories.py`.
"""

import functools
import re
import time

import numpy as np
from absl import flags

import lwt
from lwt.inspect import ffn_memories
from lwt.machine import command_line, hardware
from lwt.report import line_names, pages, records, results, style
from studies.inspection import memory_page

CONFIDENT = 0.1  # the share of keys whose values are most confident
FIGURES = {  # of a layer -> header, factor, digits
    "keys": ("keys", 1, 0),
    "alive": ("alive", 1, 0),
    "agreement": ("agreement (%)", 100, 1),
    "agreement_by_chance": ("agreement by chance (%)", 100, 2),
    "agreement_of_the_surest": ("agreement of the most confident tenth (%)", 100, 1),
    "median_rank": ("median rank", 1, 0),
    "largest_probability": ("largest probability (%)", 100, 3),
    "same_last_token": ("same last token (%)", 100, 1),
    "same_last_token_by_chance": ("same last token by chance (%)", 100, 1),
    "same_last_bigram": ("same last two tokens (%)", 100, 1),
    "without_first": ("change without the first token (%)", 100, 1),
    "without_last": ("change without the last token (%)", 100, 1),
}
ABOUT = """\
A layer is read as key-value memories (Geva et al. 2020; `lwt/inspect/ffn_memories.py`). A key is a hidden unit of a
feed-forward network, or a channel of EmbBERT's convolution. Its coefficients are its activations, and its triggers are
the positions with the {top} largest ones, in {records:,} records of `{data}`. Its value is the
vector that the coefficient multiplies; the {table} turns it into probabilities of {vocabulary:,} tokens.

A value is compared with: {kinds}. Measured in {seconds:.0f} seconds on {hardware}.
"""
HOW_TO_READ = """\
- Alive: keys with a coefficient above 0 somewhere. All other figures are of these keys.
- Agreement: the share of keys whose value's likeliest token is the one that it is compared with, at the strongest
  trigger. By chance: the mean over all orders in which the layer's values could be dealt to its keys. The most
  confident tenth: the keys whose values have the largest probabilities.
- Median rank: how many tokens a value prefers to the one that it is compared with.
- Largest probability: that of a value's likeliest token, mean over the keys.
- Same last token, same last two tokens: the share of a key's triggers that have the commonest ending. By chance: with
  the triggers of all keys of the layer shuffled.
- Change without the first or the last token: that of the coefficient when this token of the text up to the trigger is
  removed (up to {shown} triggers of a sample of keys). In an encoder, the text after the trigger stays.
"""


def statistics(layer):
    """The `FIGURES` of a layer; those that are undefined are None.

    Args:
        layer: an `ffn_memories.Layer`.
    """
    own = layer.triggers
    alive = own["coefficient"][:, 0] > 0
    found = dict.fromkeys(FIGURES) | {"keys": len(alive), "alive": int(alive.sum())}
    found |= {f"without_{which}": change for which, change in layer.removed.items()}
    if not alive.any():
        return found
    top, answers, sure = layer.tokens[alive, 0], own["answer"][alive, 0], layer.shares[alive, 0]
    agree = top == answers
    surest = np.argsort(-sure, kind="stable")[: max(1, round(CONFIDENT * len(sure)))]
    counts = [np.bincount(ids, minlength=max(top.max(), answers.max()) + 1) for ids in (top, answers)]
    last, before = (own[what][alive] for what in ("last", "before"))
    real = own["coefficient"][alive] > 0
    order = np.random.default_rng(0).permutation(int(real.sum()))
    shuffled = last.copy()
    shuffled[real] = last[real][order]
    bigrams = last.astype(np.int64) + (1 << 32) * before
    return found | {
        "agreement": float(agree.mean()),
        "agreement_by_chance": float(np.dot(*(c.astype(float) for c in counts)) / len(top) ** 2),
        "agreement_of_the_surest": float(agree[surest].mean()),
        "median_rank": float(np.median(layer.rank[alive])),
        "largest_probability": float(sure.mean()),
        "same_last_token": commonest(last, real),
        "same_last_token_by_chance": commonest(shuffled, real),
        "same_last_bigram": commonest(bigrams, real),
    }


def commonest(ids, real):
    """The share of the commonest of the `real` entries in every row of `ids` `[f k]`, mean over the rows."""
    shares = [np.unique(row[mask], return_counts=True)[1].max() / mask.sum() for row, mask in zip(ids, real)]
    return float(np.mean(shares))


def facts_of(layers, *, texts, tokenizer):
    """What the page says of the layers: ``{"found": {layer: figures}, "shown": [data of the file to browse]}``.

    Args:
        layers: `ffn_memories.Layer` of every layer.
        texts: from `memory_triggers.contexts`.
        tokenizer: of the run.
    """
    return {
        "found": {layer.name.removesuffix("/kernel"): statistics(layer) for layer in layers},
        "shown": [_page_layer(layer, texts, tokenizer) for layer in layers],
        "vocabulary": layers[0].vocabulary,
    }


def write(out, facts):
    """Writes README.md, results.json, memories.csv, memories.png and memories.html; returns their names.

    Args:
        out: folder.
        facts: from `facts_of` and `ffn_memories.study`, with workdir, command, hardware and seconds.
    """
    title, found = f"Memories of {facts['workdir']}", facts["found"]
    page = pages.Page(out, title, command_line=facts["command"])
    keys = ("hardware", "seconds", "command")
    fixed = {"config": facts["workdir"], "seed": None, "split": facts["data"], "paper": None}
    fixed |= {key: facts[key] for key in keys}
    rows = [
        {**fixed, "overrides": {"layer": name}, "metric": metric, "value": value}
        for name, own in found.items()
        for metric, value in own.items()
        if value is not None
    ]
    page.rows(rows)
    page.csv("memories.csv", (["layer", *FIGURES], [[name, *own.values()] for name, own in found.items()]))
    draw(page.path("memories.png"), found)
    page.path("memories.html").write_text(memory_page.page(title, facts["shown"]), encoding="utf-8")
    kinds = dict.fromkeys(f"{layer['predicts']} (`{layer['name'].split('/')[0]}`)" for layer in facts["shown"])
    if len({layer["predicts"] for layer in facts["shown"]}) == 1:
        kinds = [facts["shown"][0]["predicts"]]
    page.add(
        ABOUT.format(**facts, kinds="; ".join(kinds)),
        HOW_TO_READ.format(shown=ffn_memories.SHOWN),
        table(found),
        "![statistics of the layers](memories.png)",
        "The command, also with `--report_only`, makes `memories.html`: a page to browse the keys, with their triggers "
        "and values.",
    )
    return page.write()


def table(found):
    """The Markdown table of ``{layer: statistics}``."""

    def show(value, factor, digits):
        return "–" if value is None else f"{factor * value:,.{digits}f}"

    body = [[name, *(show(own[key], *FIGURES[key][1:]) for key in FIGURES)] for name, own in found.items()]
    return results.markdown(["layer", *(header for header, *_ in FIGURES.values())], body)


def draw(path, found):
    """Draws the agreement, what triggers share, and the change of coefficients, by layer."""
    panels = {
        "The value's likeliest token is the one at the trigger (% of the keys)": {
            "agreement": "all keys", "agreement_by_chance": "by chance", "agreement_of_the_surest": "the most confident"
        },
        "A key's triggers end alike (% of the triggers)": {
            "same_last_token": "last token", "same_last_token_by_chance": "last token, by chance",
            "same_last_bigram": "last two tokens",
        },
        "The coefficient changes when a token is removed (%)": {
            "without_first": "the first token", "without_last": "the last token"
        },
    }  # fmt: skip
    names = [re.sub(r"/?(mlp/fc2|contract|layer_)", " ", name).replace("_", " ").strip() for name in found]
    title = "What the memories of each layer hold"
    with style.drawing(path, title, panels=3, across=1, height=8.5, share_x=True, share_y=False) as (_, axes):
        for place, (heading, keys) in zip(axes, panels.items(), strict=True):
            ends = {}
            for i, (key, said) in enumerate(keys.items()):
                points = [(at, 100 * own[key]) for at, own in enumerate(found.values()) if own[key] is not None]
                if points:
                    place.plot(*zip(*points), linestyle="--" if "chance" in key else "-", **style.look(i))
                    ends[said] = (*points[-1], style.look(i)["color"])
            place.set_xticks(range(len(names)), names, rotation=30, ha="right", rotation_mode="anchor")
            place.set_title(heading, loc="left", fontsize=10.5)
            line_names.put(place, ends, gap=0.13)


def _page_layer(layer, texts, tokenizer):
    """The data of a layer that `memory_page.page` takes."""

    def tokens(ids):
        return [tokenizer.piece(int(i)) for i in ids]

    keys = {}
    for (name, key, place), (before, here, after) in texts.items():
        if name != layer.name:
            continue
        own = keys.setdefault(
            key, {"values": list(zip(tokens(layer.tokens[key]), layer.shares[key].tolist())), "triggers": []}
        )
        rest = [] if layer.predicts == "the next token" else after
        answer = tokenizer.piece(int(layer.triggers["answer"][key, place]))
        text = (*tokenizer.decode([before]), tokenizer.piece(here), *tokenizer.decode([rest]))
        own["triggers"].append((float(layer.triggers["coefficient"][key, place]), text, answer))
    return {"name": layer.name.removesuffix("/kernel"), "predicts": layer.predicts, "keys": dict(sorted(keys.items()))}


def measured(values):
    """What the page says, as `write` takes it; `values` are the flags."""
    begin = time.perf_counter()
    experiment = lwt.load(values.workdir, checkpoint=values.checkpoint, base=values.base)
    given = {key: getattr(values, key) for key in ("data", "limit", "top", "shown", "sampled")}
    found, texts, facts = ffn_memories.study(experiment, **given)
    facts |= {"workdir": values.workdir, "command": pages.command_line(), "hardware": hardware.describe()}
    facts["seconds"] = round(time.perf_counter() - begin, 1)
    return facts | facts_of(found, texts=texts, tokenizer=experiment.tokenizer)


def main():
    """The program."""
    values = flags.FLAGS
    facts = records.of_page(values.out, functools.partial(measured, values), report_only=values.report_only)
    said = {key: value for key, value in facts.items() if key not in ("found", "shown")}
    command_line.report({"out": values.out, "files": write(values.out, facts), **said})


if __name__ == "__main__":
    command_line.define_run(workdir="Folder of a run or bundle of texts.")
    flags.DEFINE_string("data", "", "Data set of the triggers, KIND:NAME@SPLIT; default: the validation set.")
    flags.DEFINE_integer("limit", 0, "Number of its records; 0: all.", lower_bound=0)
    flags.DEFINE_integer("top", 50, "Number of triggers of a key.", lower_bound=1)
    flags.DEFINE_integer("shown", 40, "Number of keys of a layer to show with their triggers.", lower_bound=0)
    flags.DEFINE_integer(
        "sampled", 32, "Number of keys of a layer whose triggers are read again without a token.", lower_bound=0
    )
    flags.DEFINE_string("out", "docs/results/memories", "Folder of the page.")
    pages.define_report_only()
    command_line.run(main, required=["workdir"])
