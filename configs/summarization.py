"""Headlines of news: a small encoder-decoder writes a title from a description, from scratch.

    python train.py --config=configs/summarization.py --workdir=runs/headlines
    python train.py --config=configs/summarization.py:data=folder:reports,source=body,target=summary --workdir=runs/mine
    python -m studies.translation.headlines --workdir=runs/headlines --out=docs/results/headlines

data      pairs of texts, KIND:NAME with the splits train, validation and test; `source` and `target` name the fields of
          a record. Records without a title are left out of training.
length    most tokens of a source, and of an answer
titles    most tokens of a title in training; pairs with a longer one are left out. Rows have less room for titles than
          for sources, so that neither side is mostly padding

The set-up is that of `configs/translation.py:data=multi30k`. The checkpoint with the highest ROUGE-L on the validation
set counts. "Lightweight Transformers" names summarization among the tasks of a phone, and has no experiment.
"""

from configs import common, translation

NEWS = "folder:ag_news_subset"
UNTITLED = 0.35  # share of records that may lack a title: mirrors of the set keep title and text in one field


def get_config(arg=""):
    """Arguments: data, source, target, vocabulary, length, titles, steps, precision, seed, smoke."""
    args = common.parse(
        arg,
        dict(
            data=NEWS, source="description", target="title", vocabulary=8_000, length=127, titles=31,
            steps=3_500, precision="bfloat16", seed=0, smoke=False,
        ),
    )  # fmt: skip
    given = {key: args[key] for key in ("data", "source", "target", "vocabulary", "precision", "seed", "smoke")}
    config = translation.get_config(",".join(f"{key}={value}" for key, value in given.items()))
    config.task = dict(config.task, metrics=("rouge",))
    config.select, config.select_mode = "rougeL", "max"
    config.data.target_row_length = args["titles"] + 1
    if args["data"] == NEWS:
        config.data.max_malformed = UNTITLED
    if not args["smoke"]:
        config.data.row_length, config.data.max_tokens = args["length"] + 1, args["length"]
        config.steps = args["steps"]
    return common.finished(config, args)
