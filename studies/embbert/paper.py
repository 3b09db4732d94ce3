"""The printed figures of "EmbBERT-Q: Breaking Memory Barriers in Embedded NLP" (Bravin et al. 2025): Tables 3 to 12.

Table 2 is in `memory.py`. Figures are per cent, as printed, slips included; docs/papers/embbert_q_appendix.md
lists these. Every printed average is the plain mean of its row.
"""

import dataclasses

FORMS = FLOAT, EIGHT_BIT = "float32", "8-bit"  # of a trained model
MODELS = {  # the names in configs/embbert_pretrain.py -> those of `memory.table_2`
    "bert_2mb": "BERT(2MB)",
    "mamba_2mb": "MAMBA(2MB)",
    "embedder": "Embedder",
    "embedder_conv": "Embedder + conv",
    "bert_ne": "BERT + NE",
    "bert_ea": "BERT + EA",
    "bert_ne_ea": "BERT + NE + EA",
    "embbert": "EmbBERT",
    "bert_tiny": "BERT-Tiny",
}
# Starts that the paper does not have -> the description of their lines, which are named "embbert+further".
VARIANTS = {
    "further": "further pre-trained",
    "taught": "taught by three of itself",
    "ngrams": "with n-grams",
    "paper": "by the paper's recipe",
    "small": "small initial tables, not pre-trained",
    "small_pretrained": "from small initial tables",
    "small_ngrams": "from small initial tables, with n-grams",
    "small_taught": "from small initial tables, taught",
    "small_taught_ngrams": "from small initial tables, taught, with n-grams",
    "small_taught_linear": "from small initial tables, taught, with a linear model of n-grams",
    "small_labelled": "from small initial tables, on added texts that all-MiniLM-L6-v2 labelled",
    "small_distilled": "from small tables, distilled from all-MiniLM-L6-v2",
    "small_distilled_linear": "from small tables, distilled from all-MiniLM-L6-v2, with a linear model of n-grams",
}
LARGER = {"minilm": "all-MiniLM-L6-v2"}  # a teacher, which the paper does not have
FROM_SCRATCH = ("embedder", "embedder_conv")  # not pre-trained, in the tables of pre-trained models too
LADDER = ("bert_2mb", "bert_ne", "bert_ea", "bert_ne_ea", "embbert")  # section 6, Figure 2
TINYNLP = {
    "imdb_reviews": "IMDb",
    "ag_news_subset": "ag_news",
    "cyberbullying": "cyberbull",
    "limit": "LiMiT",
    "emotion": "Emotion",
    "nlu": "nlu",
    "snips": "Snips",
}
GLUE = {  # in the order of `glue.COLUMNS`
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "qqp": "QQP",
    "mnli_matched": "MNLI-m",
    "mnli_mismatched": "MNLI-mm",
    "qnli": "QNLI",
    "rte": "RTE",
    "wnli": "WNLI",
    "stsb": "STS-B",
}
SIZES = {  # Tables 3 and 4: records of all parts, classes
    "imdb_reviews": ("50k", 2),
    "ag_news_subset": ("127.6k", 4),
    "cyberbullying": ("46k", 6),
    "limit": ("24.6k", 2),
    "emotion": ("20k", 6),
    "nlu": ("25.7k", 18),
    "snips": ("14.5k", 7),
    "cola": ("10.7k", 2),
    "sst2": ("70k", 2),
    "mrpc": ("5.8k", 2),
    "qqp": ("795k", 2),
    "mnli": ("403k", 3),
    "qnli": ("116k", 2),
    "rte": ("5.77k", 2),
    "wnli": ("852", 2),
    "stsb": ("8.63k", None),
}


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of scores.

    Attributes:
        title: what it shows.
        start: "pretrained" or "scratch"; the models of `FROM_SCRATCH` are trained from scratch in all of them.
        metric: "accuracy", "mcc", or "glue": a figure for each column (`glue.COLUMNS`).
        rows: ``{(model, form): {column: figure, "average": figure}}``.
        whole: False for an extract of another table.
    """

    title: str
    start: str
    metric: str
    rows: dict
    whole: bool = True

    @property
    def columns(self):
        """Columns by the name of the task: what the paper calls them."""
        return GLUE if self.metric == "glue" else TINYNLP


def _rows(text, columns):
    """Lines of ``model figures...``; a Q after the model is its eight-bit form."""
    rows = {}
    for line in text.strip().splitlines():
        name, *figures = line.split()
        key = (name.removesuffix("-Q"), EIGHT_BIT if name.endswith("-Q") else FLOAT)
        rows[key] = dict(zip([*columns, "average"], map(float, figures), strict=True))
    return rows


_EMBEDDERS = """
embedder      82.60 91.10 82.78 71.60 89.40 89.50 97.93 86.41
embedder_conv 84.08 91.50 83.10 70.32 89.45 89.33 97.75 86.50
"""  # in Tables 5, 7, 8 (where these accuracies stand for the MCC) and 9
_EMBEDDERS_GLUE = """
embedder       9.65 78.90 62.25 83.28 62.06 62.17 65.40 52.73 77.20 15.58 56.92
embedder_conv  9.25 79.10 60.50 82.98 61.98 60.93 62.08 52.00 79.16 16.10 56.41
"""  # in Tables 6, 11 and 12

TABLES = {
    5: Table(
        "TinyNLP, accuracy",
        "pretrained",
        "accuracy",
        _rows(
            _EMBEDDERS
            + """\
bert_2mb      79.38 89.00 83.90 74.72 77.34 86.14 97.00 83.93
mamba_2mb     81.86 89.40 81.38 74.72 45.72 70.10 96.40 77.08
embbert-Q     84.01 90.63 86.60 74.10 89.90 94.05 97.93 88.17
bert_tiny     85.69 91.93 83.38 72.40 88.86 88.53 98.16 86.99
""",
            TINYNLP,
        ),
        whole=False,
    ),
    6: Table(
        "GLUE",
        "pretrained",
        "glue",
        _rows(
            _EMBEDDERS_GLUE
            + """\
bert_2mb      -0.86 71.28 64.66 73.04 60.56 61.58 60.82 48.24 66.20 15.48 52.10
mamba_2mb      2.56 81.16 64.62 79.18 61.22 61.40 63.20 50.20 23.38 10.16 49.71
embbert-Q      9.56 80.96 67.99 82.45 67.10 68.05 68.06 47.29 87.32 49.28 62.81
bert_tiny      0.00 83.20 71.10 62.20 70.20 70.30 81.50 57.20 62.30 73.60 63.16
""",
            GLUE,
        ),
        whole=False,
    ),
    7: Table(
        "TinyNLP, accuracy, not pre-trained",
        "scratch",
        "accuracy",
        _rows(
            _EMBEDDERS
            + """\
bert_2mb      78.98 88.93 82.63 70.10 83.35 85.63 96.58 83.74
mamba_2mb     78.18 91.08 83.74 71.66 77.40 87.60 97.34 83.86
bert_ne       82.52 90.86 82.96 69.82 78.34 84.06 96.74 83.61
bert_ne_ea    81.60 90.53 82.30 55.57 83.70 84.90 96.50 82.16
embbert       83.10 90.82 82.50 68.90 68.48 76.78 95.18 80.82
""",
            TINYNLP,
        ),
    ),
    8: Table(
        "TinyNLP, MCC, not pre-trained",
        "scratch",
        "mcc",
        _rows(
            _EMBEDDERS
            + """\
bert_2mb      58.10 85.25 79.45 40.13 78.35 84.05 96.00 74.48
mamba_2mb     56.62 88.14 80.82 42.62 70.84 86.22 96.86 74.59
bert_ne       65.06 87.82 79.86 38.30 72.34 82.42 96.20 74.57
bert_ne_ea    63.32 87.35 79.13 20.67 78.85 83.30 95.93 72.65
embbert       66.32 87.78 79.26 38.42 60.78 74.66 94.40 71.66
""",
            TINYNLP,
        ),
    ),
    9: Table(
        "TinyNLP, accuracy, pre-trained",
        "pretrained",
        "accuracy",
        _rows(
            _EMBEDDERS
            + """\
bert_2mb      79.38 89.00 83.90 74.72 77.34 86.14 97.00 83.93
mamba_2mb     84.76 90.68 81.20 73.98 74.58 73.24 93.42 81.69
bert_ne       81.86 89.40 81.38 74.72 45.72 70.10 96.40 77.08
bert_ea       80.46 89.46 84.58 74.12 85.78 87.44 97.62 85.64
bert_ne_ea    83.19 90.80 84.13 75.80 88.70 88.88 97.79 87.04
bert_ne_ea-Q  82.35 89.51 85.58 76.40 80.85 89.46 97.29 85.92
embbert       84.10 90.46 83.97 76.36 89.58 88.16 97.67 87.19
embbert-Q     84.01 90.63 86.60 74.10 89.90 94.05 97.93 88.17
""",
            TINYNLP,
        ),
    ),
    10: Table(
        "TinyNLP, MCC, pre-trained",
        "pretrained",
        "mcc",
        _rows(
            """
bert_2mb      58.88 85.38 80.86 47.14 71.26 84.74 96.50 74.97
mamba_2mb     63.78 85.90 77.92 46.56 30.40 66.92 95.76 66.75
embedder      65.18 88.13 80.10 41.10 86.23 88.30 97.58 78.09
embedder_conv 68.15 88.68 80.45 40.45 86.18 88.13 97.38 78.49
bert_ne       66.64 87.54 80.94 45.98 83.62 85.12 97.54 78.20
bert_ea       61.08 85.94 81.66 47.86 81.64 86.10 97.26 77.36
bert_ne_ea    68.04 88.08 82.60 51.24 85.62 86.46 97.06 79.87
bert_ne_ea-Q  64.70 86.02 82.77 47.89 74.55 88.20 96.84 77.28
embbert       68.25 87.31 80.87 48.10 86.26 86.76 97.29 79.26
embbert-Q     68.04 87.51 84.10 46.84 86.71 93.36 97.59 80.59
""",
            TINYNLP,
        ),
    ),
    11: Table(
        "GLUE, not pre-trained",
        "scratch",
        "glue",
        _rows(
            _EMBEDDERS_GLUE
            + """\
bert_2mb       3.93 75.20 63.88 81.03 64.95 63.65 62.75 49.38 70.68  6.74 54.22
mamba_2mb      7.22 80.60 60.72 80.66 64.27 64.44 59.78 51.76 80.00  4.58 55.40
bert_ne        5.22 77.34 63.18 81.12 64.14 64.53 66.76 51.14 85.62  4.72 56.38
bert_ne_ea     2.66 78.68 61.90 83.16 62.65 61.63 62.36 48.38 85.62  8.94 55.60
embbert        5.32 78.50 62.54 82.58 63.82 65.78 63.68 51.26 87.30  9.76 57.05
""",
            GLUE,
        ),
    ),
    12: Table(
        "GLUE, pre-trained",
        "pretrained",
        "glue",
        _rows(
            _EMBEDDERS_GLUE
            + """\
bert_2mb      -0.86 71.28 64.66 73.04 60.56 61.58 60.82 48.24 66.20 15.48 52.10
mamba_2mb      2.56 81.16 64.62 79.18 61.22 61.40 63.20 50.20 76.62 10.16 55.03
bert_ne        9.04 78.82 65.04 79.96 63.08 63.30 63.20 51.76 87.30 13.46 57.50
bert_ea       10.06 79.44 66.48 78.88 60.82 60.82 63.50 50.76 22.24 17.92 51.09
bert_ne_ea    18.70 79.60 65.36 82.66 67.06 67.44 67.44 53.66 86.74 23.34 61.20
bert_ne_ea-Q   9.57 77.87 63.40 48.93 34.19 33.59 59.58 53.79 59.15 19.58 45.97
embbert       11.01 79.33 69.19 83.25 67.83 68.63 68.92 49.96 87.61 49.25 63.50
embbert-Q      9.56 80.96 67.99 82.45 67.10 68.05 68.06 47.29 87.32 49.28 62.81
""",
            GLUE,
        ),
    ),
}


def title(model, form=FLOAT):
    """The paper's name of a model or of its eight-bit form; for one of the `VARIANTS`, with its description."""
    base, _, variant = model.partition("+")
    name = {**MODELS, **LARGER}.get(base, base)
    name = name if form == FLOAT else "EmbBERT-Q" if base == "embbert" else f"{name} (8 bits)"
    return f"{name}, {VARIANTS[variant]}" if variant else name
