"""The paper's formulas and figures, and counts of real weights."""

import itertools
import subprocess
import sys

import jax
import numpy as np
import pytest

from lwt import errors, trees
from lwt.inspect import cost
from lwt.reparam.compression import quantize
from lwt.runs import config_file, integer_file
from studies.embbert import formulas as f
from studies.embbert import memory, memory_search, paper, starts

L, D, A, K = 256, 128, 1, 32


def test_totals_by_the_formulas():
    rows = memory.table_2()
    found = {title: (int(row.cost.weights), int(row.cost.activations)) for title, row in rows.items()}
    assert found["EmbBERT"] == (353_536, 131_072)
    assert found["BERT(2MB)"] == (287_520, 212_992)
    assert found["MAMBA(2MB)"] == (64 * (2048 + 256 + 2) + 5 * 14_464, 265_216)
    assert found["Embedder"] == (290_816 + 2 * 2 * 320, 163_840)
    assert found["BERT-Tiny"][1] == 786_432 and round(found["BERT-Tiny"][0] / 1e5) == 44
    assert f.nano_embedder(v=8192, l=L, d=D, r=16).weights == 139_520
    assert (f.norm(l=L, d=D) + f.efficient_skip(l=L, d=D, a=A, k=K)).weights == 53_504


def test_operations_add_up_from_their_steps():
    """Sections 3.2.2 and B.1 to B.4 name the steps; the tables' rows are their sums, but for the slips they confess."""
    softmax = 2 * L * L, L * L, 2 * L * L
    product = 2 * L * L * D, L * L * D, L * L * D  # accesses, sums, products
    full = 2 * L * D * D, L * D * D, L * D * D
    residual = 0, L * D, 0
    attention = np.sum([full, product, softmax, product, full, residual], axis=0)
    assert _operations(f.efficient_attention(l=L, d=D)) == attention.tolist()
    conv = D * L * (K + 1), D * L * K, D * L * K
    silu = D * L, D * L, 4 * D * L
    contract = 2 * D * D * A * L, D * D * A * L, D * D * A * L
    difference = 2 * D * L, D * L, 2 * D * L
    skip = np.sum([conv, silu, contract, difference], axis=0) + [0, 0, L * D]
    assert _operations(f.conv_skip(l=L, d=D, a=A, k=K)) == skip.tolist()
    both = attention + skip - [0, 0, L * L]
    assert _operations(f.efficient_skip(l=L, d=D, a=A, k=K)) == both.tolist()
    h = 2
    heads = (
        [6 * L * D * D, 3 * L * D * D, 3 * L * D * D],
        np.multiply(2 * h, product),
        [2 * L * L * h, L * L * h, 3 * L * L * h],
    )
    assert _operations(f.attention(l=L, d=D, h=h)) == np.sum([*heads, full, residual], axis=0).tolist()
    lookups, expand = [L * (2 * 16 + 2), 0, 0], [4 * L * 16 * D, 2 * L * 16 * D + L * D, 2 * L * 16 * D]
    segments = [2 * D + L * D, L * D, 0]
    assert _operations(f.nano_embedder(v=1, l=L, d=D, r=16)) == np.sum([lookups, expand, segments], axis=0).tolist()


def _operations(cost):
    return [cost.accesses, cost.sums, cost.products]


def test_a_table_of_ngrams_keeps_embbert_q_within_781_kb():
    row, given = memory.table_2()["EmbBERT"], starts.NGRAMS["ngram_weights"]
    tasks = [(task, paper.SIZES[task][1]) for task in paper.TINYNLP]
    for task, classes in tasks:
        plain = memory.make(row).clone(outputs=classes, pool="rms")
        wide = plain.clone(ngram_weights=given)
        more = f.ngrams(weights=given, classes=classes, l=L).weights
        assert trees.count(memory.shapes(wide)) - trees.count(memory.shapes(plain)) == more <= given, task
        assert memory.quantized_bytes(wide, vector=2) + 2 * row.cost.activations < 775_000, task
        assert memory.quantized_bytes(wide) - memory.quantized_bytes(plain) == more + 2 * classes * -(
            -more // classes // 64
        )
    totals = [
        cost.parameters(config_file.load(f"configs/embbert_finetune.py:ngram_weights={n}"), outputs=18)["total"]
        for n in (0, given)
    ]
    assert totals[1] - totals[0] == f.ngrams(weights=given, classes=18, l=L).weights


def test_counts_of_real_weights_are_the_papers():
    counted = {title: trees.count(_shapes(row)) for title, row in memory.table_2().items()}
    assert counted == {
        "BERT(2MB)": 288_720,
        "MAMBA(2MB)": 219_968,
        "Embedder": 292_736,
        "Embedder + conv": 298_176,
        "EmbBERT": 357_248,
        "BERT-Tiny": 4_385_920,
    }
    for title, row in memory.table_2().items():
        assert abs(counted[title] / 1000 - row.paper[0]) < 0.75 + 0.005 * row.paper[0] * (title == "BERT-Tiny")
    row = memory.table_2()["EmbBERT"]
    reading = _shapes(row, use_bias=False, norm="layer", segments=2, collapsed=True)
    assert trees.count(reading) == row.cost.weights + 2 * 4  # the formulas, and two λ a block


def _shapes(row, **more):
    return memory.body(memory.shapes(memory.make(row, **more)))


def test_three_readings_and_a_real_file(tmp_path):
    row = memory.table_2()["EmbBERT"]
    model = memory.make(row, collapsed=True)
    base = trees.flatten(jax.jit(model.init)(jax.random.key(0), model.example())["params"])
    path = str(tmp_path / "embbert.lwtq")
    integer_file.write(path, quantize.Quantize().expand(base, {}, 0))
    found = list(memory.readings(path).values())
    assert [sum(bytes) for bytes in found[:2]] == [647_972, 780_548]
    (ours, _), (half, _), rows, file, file_by_rows = found[2:]
    matrices = sum(w.size for w in base.values() if w.ndim > 1)
    vectors = trees.count(base) - matrices
    segment, expanders, conv, head = 128, 2 * 128, 4 * 128, 2 * 2  # scales where a column is one block, or two
    scales = (8192 + 256) // 64 * 16 + 12 * 128 * 128 // 64 + segment + expanders + conv + head
    assert ours == matrices + 2 * scales + 4 * vectors and half == ours - 2 * vectors
    assert ours < file[0] < ours + 10_000 and file[0] <= 400_000
    assert file[1] == 2 * 131_072 and file_by_rows == (file[0], rows[1]) and sum(file_by_rows) <= 560_000
    four = quantize.Quantize(format="int4")
    assert memory.quantized_bytes(model, reparam=four) == ours  # two to a byte in a file only
    with pytest.raises(errors.ConfigError, match="--artefact=nowhere: there is no such file"):
        memory.readings("nowhere")


def test_search_against_all_by_hand():
    space = {"v": (2048, 8192), "l": (256,), "d": (64, 128), "r": (16,), "a": (1, 2), "k": (4, 32), "n": (1, 4)}
    budget, every = 1_000_000, []
    for v, _, d, _, a, k, n in itertools.product(*space.values()):
        cost = f.embbert(v=v, l=256, d=d, r=16, a=a, k=k, n=n)
        if cost.bytes(weight=1.08, activation=2) <= budget:
            every.append((n * (2 * d * d + d * d * a + k * d * a + 2 * d), -int(cost.products), v))
    found, many = memory_search.best(budget, weight=1.08, activation=2, space=space, top=1000)
    assert many == len(found) == len(every)
    assert [(x["encoder"], -x["products"]) for x in found] == sorted((e[:2] for e in every), reverse=True)
    for criterion, keys in memory_search.CRITERIA.items():
        found, _ = memory_search.best(2 << 20, criterion=criterion, top=50)
        order = [tuple(-x[key[1:]] if key[0] == "-" else x[key] for key in keys) for x in found]
        assert order == sorted(order, reverse=True) and all(x["bytes"] <= 2 << 20 for x in found), criterion


def test_search_knows_the_papers_model_and_its_own_limits():
    one = {name: (value,) for name, value in memory.SIZES.items()}
    found, _ = memory_search.best(2 << 20, space=one)
    assert found[0]["weights"] == 353_536 and found[0]["bytes"] == 4 * (353_536 + 131_072)
    rows, _ = memory_search.best(560_000, weight=1.08, activation=2, schedule="rows", space=one)
    assert rows[0]["activations"] == 2 * L * D + L + D
    with pytest.raises(errors.ConfigError, match=r"nothing fits into 1,000 bytes: the smallest needs [\d,]+ \(v=8192"):
        memory_search.best(1000, space=one)
    for options, message in (
        ({"criterion": "size"}, "criterion='size'"),
        ({"schedule": "row"}, "did you mean 'rows'"),
        ({"space": {"x": (1,)}}, "size='x'"),
        ({"space": {"d": ()}}, r"d=\(\)"),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            memory_search.best(1 << 21, **options)


def test_the_program_prints_all_tables():
    command = [sys.executable, "-m", "studies.embbert.memory", "--top=3", "--space=v=8192,l=256"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for text in ("| EmbBERT | 357 K | 353,536 | 357,248 | 131 K | 131,072 |", "| 647,972 |", "| 780,548 |"):
        assert text in done.stdout
    assert done.stdout.count("\n## ") == 3 and done.stdout.rstrip().splitlines()[-1].startswith("| 3 | 8,192 | 256 |")
    with pytest.raises(errors.ConfigError, match="--space=v8192: it should look like"):
        memory.parse(["v8192"])
