"""The page of feed-forward memories: statistics of a layer that is known, and the files."""

import html.parser
import types

import numpy as np

from lwt.inspect import ffn_memories
from studies.inspection import memories, memory_page


def layer(name, *, predicts="the token"):
    """Three keys with four triggers; the third key is dead."""
    triggers = {
        "coefficient": np.array([[5.0, 5, 2, 2], [1.5, 1.25, 1, 0.5], [0, 0, 0, 0]]),
        "last": np.array([[6, 6, 5, 5], [7, 7, 7, 5], [5, 5, 5, 5]]),
        "before": np.array([[5, 5, 2, 2], [7, 2, 2, 2], [2, 2, 2, 2]]),
        "answer": np.array([[6, 6, 5, 5], [7, 7, 7, 5], [5, 5, 5, 5]]),
    }
    tokens, shares = np.array([[6, 5], [7, 5], [5, 6]]), np.array([[0.5, 0.25], [0.75, 0.125], [0.5, 0.25]])
    removed = {"first": 0.5, "last": None}
    return ffn_memories.Layer(name, predicts, triggers, tokens, shares, np.array([0, 2, 9]), removed, 8)


class Reader(html.parser.HTMLParser):
    """The nesting of tags, and the text of <mark>."""

    def __init__(self, text):
        super().__init__()
        self.open, self.marked = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open += [] if tag in ("meta", "input") else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.marked += [data] if self.open and self.open[-1] == "mark" else []


def test_the_file_to_browse_in_escapes_what_it_shows():
    key = {"values": [("<b>", 0.5), ("x", 0.25)], "triggers": [(1.0, ("a & b", '"quoted"', "</table>"), "<b>")]}
    text = memory_page.page("<i>", [{"name": "encoder/0", "predicts": "the token", "keys": {7: key}}])
    found = Reader(text)
    assert found.open == [] and found.marked == ["<b>", '"quoted"'] and "<i>" not in text
    assert "&quot;\\&quot;quoted\\&quot;&quot;" in text  # the list of tokens for the search, as JSON


def test_statistics_are_of_the_keys_that_are_alive():
    found = memories.statistics(layer("encoder/layer_0/mlp/fc2/kernel"))
    assert (found["keys"], found["alive"], found["agreement"], found["agreement_by_chance"]) == (3, 2, 1.0, 0.5)
    assert (found["median_rank"], found["without_first"], found["without_last"]) == (1.0, 0.5, None)
    assert found["largest_probability"] == 0.625 and found["agreement_of_the_surest"] == 1.0
    assert (found["same_last_token"], found["same_last_bigram"]) == ((2 / 4 + 3 / 4) / 2, (2 / 4 + 2 / 4) / 2)


def test_the_page(tmp_path):
    tokenizer = types.SimpleNamespace(
        piece="<{}>".format, decode=lambda rows: ["".join(f"<{i}>" for i in ids) for ids in rows]
    )
    layers = [
        layer("encoder/layer_0/mlp/fc2/kernel"),
        layer("decoder/layer_0/mlp/fc2/kernel", predicts="the next token"),
    ]
    texts = {(own.name, key, 0): ([5, 6], 6, [7]) for own in layers for key in (0, 1)}
    facts = dict(
        workdir="runs/x", command="c", hardware="h", seconds=1.0, data="d", records=4, top=4, table="output embedding"
    )
    files = memories.write(tmp_path, facts | memories.facts_of(layers, texts=texts, tokenizer=tokenizer))
    assert sorted(files) == sorted(path.name for path in tmp_path.iterdir())
    found = Reader((tmp_path / "memories.html").read_text())
    assert found.open == [] and "<6>" in found.marked
    page = (tmp_path / "README.md").read_text()
    assert "| encoder/layer_0/mlp/fc2 | 3 | 2 | 100.0 |" in page and "the next token (`decoder`)" in page
    assert "(up to 10 triggers of a sample of keys)" in page
