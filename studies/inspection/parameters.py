"""Writes the table of exact parameter counts of every config.

    python -m studies.inspection.parameters                     # docs/results/parameters
    python -m studies.inspection.parameters --out=parameters

Writes README.md and results.json. A new config gets a line in `ROWS`.
"""

import dataclasses
import time

from absl import flags

from lwt.inspect import cost
from lwt.machine import command_line, hardware
from lwt.report import pages, results
from lwt.runs import config_file

ENCODERS = {  # "EmbBERT-Q", Table 2
    "embbert": 357_000,
    "bert_2mb": 289_000,
    "mamba_2mb": 220_000,
    "embedder": 293_000,
    "embedder_conv": 298_000,
    "bert_ne": 0,
    "bert_ea": 0,
    "bert_ne_ea": 0,
    "bert_tiny": 4_400_000,
}


HOW_TO_READ = """\
Counts are exact: they come from the shapes that training would make. "Model" is the base without task heads and without
an adapter, "trainable" what is trained, heads and adapter included. "Frozen" is a share of all stored weights, those of
the adapter included. The state of the optimizer (two float32 moments, and counters of four bytes) exists for the
trainable weights only.
"""
NOTES = """\
"Implementing Transformers" prints its counts in units of 1,024 (36 × 1,024 = 36,864). LoRA on query, key and value of
12 attentions trains 9,216·r weights: its Table 1 says so too (288k at rank 32, which is 288 × 1,024), and the 188k of
its text is a slip. Vocabularies are those that the configs ask for (a corpus too small for one gives fewer pieces); an
adapter without a base is one of the paper's base, of 50,048 pieces. Image classifiers have the heads of their data: 10
classes of CIFAR-10, 8 of radar maps, 1000 in the Vision Transformers for 224 pixels, as the published figures have
(Touvron et al. 2021, and timm).
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        config: the file.
        arguments: the file's arguments, as on the command line.
        classes: number of classes of data that is not read; 0: the model's default.
        paper: metric -> the paper's figure.
    """

    config: str
    arguments: str
    classes: int = 0
    paper: dict = dataclasses.field(default_factory=dict)

    @property
    def spec(self):
        return f"{self.config}:{self.arguments}"


def _lora(method, rank, **more):
    return Row("configs/lora_ranks.py", f"method={method},rank={rank}", **more)


ROWS = (
    Row("configs/translation.py", "data=pool", paper={"model": 8_200_000}),
    Row("configs/translation.py", "data=wmt17", paper={"model": 8_200_000}),
    Row("configs/translation.py", "data=multi30k"),
    Row("configs/summarization.py", "source=description"),
    _lora("lora", 4, paper={"trainable": 36_000}),
    _lora("lora", 8, paper={"trainable": 72_000}),
    _lora("lora", 16, paper={"trainable": 144_000}),
    _lora("lora", 32, paper={"trainable": 288_000}),
    *(_lora(method, 16) for method in ("lora_plus", "rslora", "pissa", "olora", "dora", "singlora")),
    *(Row("configs/lora_ranks.py", f"method={method}") for method in ("full", "bitfit")),
    *(
        Row("configs/embbert_pretrain.py", f"model={model}", paper={"model": paper} if paper else {})
        for model, paper in ENCODERS.items()
    ),
    Row("configs/embbert_finetune.py", "model=embbert,task=sst2"),
    Row("configs/embbert_finetune.py", "model=embbert,task=sst2,base=runs/sst2,method=qlora"),
    *(
        Row("configs/kv_projection.py", f"task={task},{form}", classes=6 * (task == "classification"))
        for task, rank in (("translation", 8), ("classification", 10))
        for form in ("form=softmax", f"rank={rank}", f"rank={rank},form=folded")
    ),
    *(Row("configs/finetune.py", f"data=folder:snips,method={method}", classes=7) for method in ("full", "lora")),
    *(Row("configs/vlora_cifar10.py", f"rank={rank}") for rank in (0, 8, 4, 2)),
    *(
        Row("configs/vit.py", f"size={size}", classes=1000, paper={"total": paper})
        for size, paper in {"ti16": 5_700_000, "s16": 22_100_000, "b16": 86_600_000}.items()
    ),
    *(
        Row("configs/vit.py", f"size={size}", classes=10, paper={"total": paper})
        for size, paper in {"cct2": 280_000, "cct7": 3_760_000}.items()
    ),
    *(
        Row("configs/lh_vit.py", f"model={model}", classes=8)
        for model in ("lh_vit", "vit", "cnn", "cnn_small", "cnn_tiny", "cnn_light")
    ),
    Row("configs/lightweight.py", "layers=2,width=96,hidden=384"),
    Row("configs/quickstart.py", "stage=base"),
    Row("configs/quickstart.py", "stage=adapt"),
)


def count(row):
    """``{"total", "trainable", "model", "optimizer_bytes"}`` of a line of the table."""
    config = config_file.load(row.spec)
    made = cost.shapes(config, outputs=row.classes)
    counts = cost.parameters(config, made=made)
    figures = {name: counts[name] for name in ("total", "trainable", "model")}
    return figures | {"optimizer_bytes": cost.optimizer_bytes(config, made=made)}


def measure(row, *, command_line):
    """Rows for ``results.json``, one per figure."""
    begin = time.perf_counter()
    figures = count(row)
    fixed = {
        "config": row.spec,
        "overrides": {"classes": row.classes} if row.classes else {},
        "seed": None,
        "split": "none",
        "hardware": hardware.describe(),
        "seconds": round(time.perf_counter() - begin, 2),
        "command": command_line,
    }
    return [fixed | {"metric": name, "value": value, "paper": row.paper.get(name)} for name, value in figures.items()]


def write(out, rows, *, command_line):
    """Writes README.md and results.json into the folder `out`; returns their names."""
    page = pages.Page(out, "Parameter counts", command_line=command_line)
    rows, body = page.rows(rows), []
    for spec, line in results.cells(rows, index="config", columns="metric").items():
        value = {name: round(cell.mean) for name, cell in line.items()}
        claims = [_claim(name, cell.paper) for name, cell in line.items() if cell.paper is not None]
        share = 100 * (1 - value["trainable"] / value["total"])
        body.append(
            [
                f"`{spec}`",
                *(f"{value[name]:,}" for name in ("model", "trainable", "optimizer_bytes")),
                f"{share:.2f} %" if value["trainable"] < value["total"] else "–",
                ", ".join(claims) or "–",
            ]
        )
    header = ["config", "model", "trainable", "optimizer state, bytes", "frozen", "paper"]
    page.add(HOW_TO_READ, results.markdown(header, body), NOTES)
    return page.write()


def _claim(metric, value):
    return f"{metric} {value / 1e6:g} M" if value >= 1e6 else f"{metric} {value / 1e3:g}k"


def main():
    """The program: counts, and writes the page."""
    out, line = flags.FLAGS.out, pages.command_line()
    if flags.FLAGS.report_only:
        rows = results.load(f"{out}/results.json")
    else:
        rows = [row for each in ROWS for row in measure(each, command_line=line)]
    print(f"wrote {out}/{', '.join(write(out, rows, command_line=rows[0]['command']))}")


if __name__ == "__main__":
    flags.DEFINE_string("out", "docs/results/parameters", "Folder of the page.")
    pages.define_report_only()
    command_line.run(main, required=[])
