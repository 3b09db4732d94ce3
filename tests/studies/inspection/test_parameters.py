"""The central test of light models: exact parameter counts, of every config."""

import contextlib
import pathlib

import pytest

from lwt.inspect import cost
from lwt.report import results
from lwt.runs import config_file
from studies.inspection import parameters

ROOT = pathlib.Path(__file__).parents[3]
BASE = 8_257_536  # "Implementing Transformers", section 4.1: 8.2 M
LORA = {4: 36_864, 8: 73_728, 16: 147_456, 32: 294_912}  # 9,216 a rank; its Table 1: 36k, 72k, 144k, 288k

VERTICAL = {0: 9_549_578, 8: 2_766_602, 4: 2_619_146, 2: 2_545_418}  # "Vertical LoRA", of its Table 1's settings


@pytest.fixture(scope="module")
def counts():
    """``{row.spec: counts}`` of the whole table."""
    with contextlib.chdir(ROOT):
        return {row.spec: parameters.count(row) for row in parameters.ROWS}


def test_the_paper_s_translator():
    config = config_file.load("configs/translation.py:data=pool")
    d, f, v, side = 128, 512, 50_048, 4
    attention, norm, mlp = 4 * (d * d + d), 2 * d, 2 * d * f + f + d
    encoder, decoder = side * (attention + mlp + 2 * norm), side * (2 * attention + mlp + 3 * norm)
    found = cost.parameters(config)
    assert found["groups"] == {"embedding": v * d, "encoder": encoder, "decoder": decoder}
    assert found["total"] == found["trainable"] == found["model"] == BASE == v * d + encoder + decoder


@pytest.mark.parametrize("rank", LORA)
def test_lora_on_query_key_value(rank):
    config = config_file.load(f"configs/lora_ranks.py:rank={rank}")
    found = cost.parameters(config)
    assert found["trainable"] == found["groups"]["adapter"] == LORA[rank] == 9_216 * rank
    assert found["model"] == BASE and found["total"] == BASE + LORA[rank]
    two_counters = 2 * 4
    assert cost.optimizer_bytes(config) == 2 * 4 * LORA[rank] + two_counters


def test_the_adapter_of_a_quantized_embbert():
    """LoRA of rank 8 on every linear layer: 7.5 % of the weights; the head is trained beside it."""
    found = cost.parameters(config_file.load("configs/embbert_finetune.py:method=qlora,base=runs/sst2,task=sst2"))
    assert found["model"] == 357_248 and found["groups"]["adapter"] == 8 * (12 * 2 * 128 + 2 * (16 + 128)) == 26_880
    assert found["trainable"] == 26_880 + 2 * 128 + 2 and round(100 * 26_880 / 357_248, 1) == 7.5


def test_published_vision_transformers(counts):
    found = {row.arguments: counts[row.spec]["total"] for row in parameters.ROWS if row.config == "configs/vit.py"}
    published = {"size=ti16": 5_717_416, "size=s16": 22_050_664, "size=b16": 86_567_656}
    assert found == published | {"size=cct2": 284_491, "size=cct7": 3_765_515}


def test_vertical_lora_on_a_vit():
    """ "Vertical LoRA", Table 1: what is stored is trained, and is that share of the plain ViT's weights."""
    counts = {rank: cost.parameters(config_file.load(f"configs/vlora_cifar10.py:rank={rank}")) for rank in VERTICAL}
    assert all(found["trainable"] == found["total"] for found in counts.values())
    assert {rank: found["total"] for rank, found in counts.items()} == VERTICAL
    shares = {rank: round(100 * count / VERTICAL[0], 2) for rank, count in VERTICAL.items()}
    assert shares == {0: 100, 8: 28.97, 4: 27.43, 2: 26.65}
    assert counts[8]["groups"]["adapter"] == 8 * 4_096 * 9  # of 9 layers, query, key and value with one `a`


def test_the_table_is_up_to_date_and_holds_every_config(counts, tmp_path):
    files = {f"configs/{path.name}" for path in (ROOT / "configs").glob("*.py")} - {"configs/common.py"}
    assert {row.config for row in parameters.ROWS} == files - {"configs/__init__.py"}
    written = results.load("docs/results/parameters/results.json")
    found = {(row["config"], row["metric"]): row["value"] for row in written}
    assert found == {(spec, name): value for spec, figures in counts.items() for name, value in figures.items()}, (
        "the page is out of date: python -m studies.inspection.parameters"
    )
    parameters.write(tmp_path, written, command_line=written[0]["command"])
    assert (tmp_path / "README.md").read_bytes() == pathlib.Path("docs/results/parameters/README.md").read_bytes()
