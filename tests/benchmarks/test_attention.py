"""The attention benchmark: both sides do the same work, and the page says what the rows say."""

import argparse
import subprocess
import sys

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is in the extras `test` and `bench`")

from benchmarks import attention, attention_page, harness
from benchmarks.lwt import attention as lwt_attention
from benchmarks.torch import attention as torch_attention
from benchmarks.torch import vit
from benchmarks.work import attention_samples
from lwt import errors
from lwt.report import results

SIZE = dict(width=16, heads=2, batch=2, reach=4, causal=False)


def flags_of(**more):
    return argparse.Namespace(**SIZE | dict(length=9, passes="forward,forward_backward", memory_limit=1e9) | more)


@pytest.mark.parametrize("causal", [False, True])
def test_both_sides_do_the_same_work(causal):
    flags = flags_of(causal=causal)
    module, weights = lwt_attention.make("softmax", flags)
    weights = jax.tree.map(lambda w: jax.random.normal(jax.random.key(w.size), w.shape) * 0.3, weights)
    x, d_y = attention_samples.arrays(flags)
    wanted = lwt_attention.functions(module, causal=causal)["forward_backward"](weights, x, d_y)

    def theirs(tree):  # [in out] -> [out in], the three in a row
        joined = {
            name: np.concatenate([np.asarray(tree[part][name]) for part in ("query", "key", "value")], axis=-1)
            for name in ("kernel", "bias")
        }
        found = {"qkv.weight": joined["kernel"].T, "qkv.bias": joined["bias"]}
        return found | {
            "proj.weight": np.asarray(tree["out"]["kernel"]).T,
            "proj.bias": np.asarray(tree["out"]["bias"]),
        }

    other = vit.Attention(16, 2, causal=causal)
    other.load_state_dict({name: torch.tensor(array) for name, array in theirs(weights).items()})
    x = torch.tensor(x, requires_grad=True)
    y = other(x)
    y.backward(torch.tensor(d_y))
    np.testing.assert_allclose(y.detach(), wanted[0], atol=1e-5)
    np.testing.assert_allclose(x.grad, wanted[2], atol=1e-5)
    for name, gradient in theirs(wanted[1]).items():
        np.testing.assert_allclose(other.get_parameter(name).grad, gradient, atol=1e-4, err_msg=name)


def test_memory_of_torch_is_the_most_that_is_held_at_once():
    def mega():
        return torch.ones(250_000)

    def one_after_the_other():
        for _ in range(3):
            mega()

    kept = mega()
    assert torch_attention.peak_bytes(one_after_the_other) == 1_000_000
    assert torch_attention.peak_bytes(lambda: (mega(), mega(), kept.sum())) == pytest.approx(2_000_000, rel=1e-3)


def test_what_needs_too_much_memory_is_not_run():
    run, facts, count = lwt_attention.prepare("local", flags_of(memory_limit=20_000))
    assert facts["forward"]["seconds"] > 0 and facts["forward"]["peak_bytes"] > 0
    assert facts["forward_backward"]["peak_bytes"] > 20_000 and "seconds" not in facts["forward_backward"]
    assert count == 4 * (16 * 16 + 16) and run(2, of="forward") == {}
    with pytest.raises(KeyError):
        run(1, of="forward_backward")


def test_memory_counts_what_the_compiler_does_not_know_of():
    """In a process of its own, as in the benchmark: what was freed before need not be asked of the system again."""
    scores = 2 * 2 * 1024 * 1024 * 4
    flags = argparse.Namespace(**SIZE | dict(width=128))  # wide heads: their weights are made at once
    command = attention.command("x/softmax", "lwt_attention", 1024, attention_samples.PASSES, 1e9, flags)
    worker = harness.Worker("softmax", command)
    facts = worker.facts["passes"]
    assert facts["forward_backward"]["peak_bytes"] >= facts["forward"]["peak_bytes"] > scores
    assert worker.quit() > scores


def test_what_would_take_too_long_is_not_started():
    known = {("x", "forward"): {128: 1.0, 256: 2.0}}
    assert attention.expected(known, "x", "forward", 1024) == 32
    assert attention.expected(known, "x", "forward", 128) == attention.expected(known, "y", "forward", 512) == 0
    flags = argparse.Namespace(memory_share=0.5, step_seconds=7.0, rounds=1)
    known["x", "forward_backward"] = {256: 3.0}
    lines, failures = attention.measure(512, {"x": "no_such_module"}, flags, known, report=print)
    over = {"over_seconds": 7.0}
    assert failures == {} and lines == {("x", "forward_backward"): over, ("x", "forward"): over}


def test_a_variant_of_which_no_pass_may_run():
    flags = argparse.Namespace(**SIZE, memory_share=0.0, step_seconds=60.0, rounds=1, pause=0.0, seconds=0.001)
    name = "lwt_attention/softmax"
    lines, failures = attention.measure(9, {name: "lwt_attention"}, flags, {}, report=print)
    assert failures == {} and lines.keys() == {(name, of) for of in attention_samples.PASSES}
    assert all(line["over_bytes"] == 0 and "seconds" not in line for line in lines.values())


def test_the_variants():
    long, short = (attention.variants("", length=n, causal=False) for n in (128, 64))
    assert {f"lwt_attention/{name}" for name in lwt_attention.VARIANTS} < long.keys()
    assert {name.partition("/")[2].removesuffix("_folded") for name in short} == {"softmax", *attention_page.RANKS}
    causal = attention.variants("", length=128, causal=True)
    assert long.keys() - causal.keys() == {"lwt_attention/linformer", "lwt_attention/nystrom"}
    assert "torch_attention/sdpa" in causal and attention.variants("none", length=128, causal=False) == {}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The program, on a variant of either side."""
    folder = tmp_path_factory.mktemp("attention")
    size = [f"--{name}={SIZE[name]}" for name in ("width", "heads", "batch", "reach")]
    arguments = [
        "--lengths=128",
        "--variants=kv_projection_half$|sdpa$",
        "--rounds=2",
        "--pause=0",
        f"--out={folder}",
    ]
    command = [sys.executable, "-m", "benchmarks.attention", *arguments, "--seconds=0.001", *size]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_program(measured):
    rows = results.load(measured / "results.json")
    found = {(*(row["overrides"][key] for key in ("variant", "length", "pass")), row["metric"]): row for row in rows}
    for name in ("lwt_attention/kv_projection_half", "torch_attention/sdpa"):
        for of in attention_samples.PASSES:
            low, middle, high = (found[name, 128, of, m]["value"] for m in ("lowest", "seconds", "highest"))
            assert 0 < low <= middle <= high
            assert found[name, 128, of, "peak_bytes"]["value"] >= 2 * 128 * 16 * 4
    assert len(rows) == 2 * 5 + 2 * 4  # PyTorch counts no operations
    page = (measured / "README.md").read_text()
    assert "of width d = 16 with h = 2 heads, for 2 sequences of n positions" in page
    assert "low-rank attention is 4 " in page
    assert (measured / "time.png").exists() and (measured / "memory.png").exists()


def rows_of(cells, *, causal=False, metric="seconds", of="forward_backward"):
    return [
        {
            "config": attention_page.CONFIG,
            "overrides": {"variant": name, "length": n, "pass": of, **SIZE, "causal": causal},
            "metric": metric,
            "value": value,
        }
        | {"seed": None, "split": "random", "paper": None, "hardware": "h", "seconds": 1.0, "command": "c"}
        for name, points in cells.items()
        for n, value in points.items()
    ]


def test_the_page(tmp_path):
    lengths = (128, 256, 512, 1024, 2048)
    softmax = {n: 1e-7 * n**2 for n in lengths}
    cells = {
        "lwt_attention/softmax": softmax,
        "lwt_attention/kv_projection_quarter": {n: 3e-5 * n for n in lengths},
        "torch_attention/sdpa": {n: 0.05e-6 * n**2 for n in lengths},
    }
    over = {"lwt_attention/softmax": {4096: 9.4e9}}, {"torch_attention/sdpa": {4096: 60.0}}
    rows = rows_of(cells) + rows_of(over[0], metric="over_bytes") + rows_of(over[1], metric="over_seconds")
    attention_page.write(tmp_path, rows)
    text = (tmp_path / "README.md").read_text()
    assert (
        "kv_projection_quarter, n ≥ 1024, forward and backward: 3.41 to 6.83 times as fast as softmax, 1.71 to 3.41"
        in text
    )
    assert "| lwt_attention/softmax | 1.64 | 6.55 | 26.2 | 105 | 419 | over 9.4 GB | 2.00 |" in text
    assert "| torch_attention/sdpa | 0.819 | 3.28 | 13.1 | 52.4 | 210 | over 60 s | 2.00 |" in text
    assert "| kv_projection_quarter | 2 | 5 | – | – | 300 |" in text
    assert (tmp_path / "time.png").exists() and not (tmp_path / "memory.png").exists()

    again = rows_of({"lwt_attention/softmax": {128: 0.5}}) + rows_of({"lwt_attention/local": {128: 1.0}}, causal=True)
    attention_page.write(tmp_path, again)
    text = (tmp_path / "README.md").read_text()
    assert "| lwt_attention/softmax | 500 | 6.55 |" in text and "| lwt_attention/local | 1,000 | – |" in text
    assert "No causal form: linformer, nystrom." in text
    assert len(results.load(tmp_path / "results.json")) == len(rows) + 1
    with pytest.raises(errors.DataError, match="give another --out"):
        attention_page.write(tmp_path, [again[0] | {"overrides": again[0]["overrides"] | {"width": 32}}])
    with pytest.raises(errors.DataError, match="holds no rows"):
        attention_page.write(tmp_path / "none", [])


def test_exponents_are_those_of_the_same_lengths():
    long = {n: n**2 for n in (128, 256, 512, 1024)}
    text = attention_page.table({"a": {n: 100 * n for n in (16, 32, 64)} | long, "b": long}, {}, factor=1)
    assert [line.rpartition(" | ")[2] for line in text.splitlines()[2:]] == ["2.00 |", "2.00 |"]


def test_a_cost_that_falls_has_no_exponent():
    assert attention_page.power_of({1: 9, 2: 1, 4: 2, 8: 4}) == pytest.approx(1)
    assert attention_page.power_of({1: 1, 2: 2, 4: 9, 8: 3}) is None


def test_memory_alone_leaves_the_times(tmp_path):
    timed = {"lwt_attention/softmax": {128: 0.5, 256: 1.0}}
    attention_page.write(tmp_path, rows_of(timed) + rows_of(timed, metric="peak_bytes"))
    attention_page.write(tmp_path, rows_of({"lwt_attention/softmax": {128: 7e6}}, metric="peak_bytes"))
    text = (tmp_path / "README.md").read_text()
    assert "| lwt_attention/softmax | 500 | 1,000 |" in text and "| lwt_attention/softmax | 7 | 1e-06 |" in text
    assert len(results.load(tmp_path / "results.json")) == 4
