"""A program of many tasks gives the logits of each adapter, and takes the slots of other adapters of its base."""

import dataclasses
import functools
import shutil
import subprocess
import zlib

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.export.c import check, emulator, export, reference, tasks, toolchain, weights
from lwt.layers import linear
from lwt.reparam import adapters, compose
from lwt.training import new_run
from tests.export.c.networks import test_network
from tests.runs import test_adapter_folder

pytestmark = pytest.mark.usefixtures("compiled_once")
TEXTS = test_network.TEXTS
LINEAR = "(?!head/).*(query|contract|expander)/kernel"
SECTIONS = {
    "topic": ({"name": "ia3", "targets": LINEAR, "feedforward": ()}, ("class 0", "class 1", "w\té")),
    "mood": ({"name": "lora", "rank": 2, "targets": LINEAR, "scaling": "one"}, ("class 0", "class 1")),
}


@pytest.fixture(scope="module")
def made(run, tmp_path_factory):
    """``made(name, section=None, classes=None, seed=0) -> folder`` of a run with random leaves and a random head."""
    home = tmp_path_factory.mktemp("adapters")

    @functools.cache
    def made(name, section=None, seed=0):
        own, classes = SECTIONS.get(name, (None, ("no", "yes")))
        own, key = dict(section or own.items()), jax.random.key(seed)
        leaves = compose.build(own).init(key, run.weights)
        moved = {leaf: w + 0.3 * jax.random.normal(key, w.shape) for leaf, w in leaves.items()}
        shapes = {"kernel": (16, len(classes)), "bias": (len(classes),)}
        head = {f"head/classifier/{x}": jax.random.normal(key, shape) for x, shape in shapes.items()}
        made = new_run.adapt(run, home / f"{name}{seed}", reparam=own, adapter=moved, trained=head, classes=classes)
        return test_adapter_folder.written(made, run)

    return made


@pytest.fixture(scope="module")
def folders(made):
    return {name: made(name) for name in SECTIONS}


@pytest.fixture(scope="module")
def many(run, folders):
    return tasks.load(run, folders, heads="int4", slot_bytes=600)


@pytest.fixture(scope="module")
def others(run, made):
    """Tasks of the same names on the same base, in another order."""
    return tasks.load(run, {name: made(name, seed=1) for name in reversed(SECTIONS)}, slot_bytes=600)


@pytest.fixture(scope="module")
def exported(run, many, tmp_path_factory):
    """The folder of the program, and its report."""
    folder = tmp_path_factory.mktemp("tasks") / "out"
    return folder, export.export(run, folder, many=many)


def logits(folder, *arguments):
    toolchain.make(folder, "classify", CC="gcc", CFLAGS="-O0 -fsanitize=address,undefined -fno-sanitize-recover=all")
    lines = "".join(text + "\n" for text in TEXTS)
    done = subprocess.run([folder / "classify", *arguments], input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return test_network.answers(done.stdout.splitlines())


def require_logits(folder, task, *arguments, activations="fp16"):
    """The program answers as the model in JAX, with the numbers of the slots and rounded states."""
    options = {"records": [(text,) for text in TEXTS], "activations": activations, "batch": len(TEXTS)}
    wanted = reference.logits(task.experiment, task.weights, **options)
    labels, found = logits(folder, task.name, *arguments)
    assert test_network.relative(found, wanted) <= test_network.TOLERANCES[activations], (found, wanted)
    assert labels == [" ".join(task.experiment.labels[i].split()) for i in found.argmax(1)]


def test_each_task_has_its_own_logits(many, exported):
    folder, report = exported
    for task in many.tasks:
        require_logits(folder, task)
    assert logits(folder)[1].shape == (5, 3)  # the first task
    assert "self-test: 0 of 4 failed" in toolchain.make(folder, "test")
    sizes = report["tasks"]["mood"]["bytes"]
    assert sizes["total"] == 16 + sizes["adapter"] + sizes["head"] + sizes["names"] <= 600
    assert sizes["head"] == 2 * (2 + 2 + 8) and sizes["names"] == len("mood class 0 class 1 ")
    assert [*report["tasks"]] == [*SECTIONS] and "classes" not in report


@pytest.mark.parametrize(
    ("kind", "fields", "section"),
    [
        (
            "bert",
            dict(hidden=21, heads=2, pooler=True, factors=3),
            {"name": "lora", "rank": 1, "targets": "(?!head/).*kernel"},
        ),
        ("mamba", dict(layers=1, pool="rms"), {"name": "ia3", "targets": ".*(in|time|out)/kernel", "feedforward": ()}),
    ],
)
def test_other_networks_in_int8(kind, fields, section, variant, tmp_path):
    base = variant(kind, width=18, **fields)
    stored = weights.of(base)[0]
    leaves = compose.build(section).init(jax.random.key(0), stored)
    leaves = {leaf: w + 0.3 * jax.random.normal(jax.random.key(1), w.shape) for leaf, w in leaves.items()}
    head = {name: linear.dense(w) for name, w in stored.items() if name.startswith("head/")}
    adapter = adapters.Adapter(leaves, section, whole=head)
    task = tasks.rounded("only", base, adapter=adapter, stored=stored, heads="int8", block=64, where="")
    many = tasks.Tasks((task,), {name: w for name, w in stored.items() if name not in head})
    export.write(base, tmp_path, activations="int8", many=many)
    require_logits(tmp_path, task, activations="int8")
    wide = variant(kind, width=18, ngram_weights=9, **fields)
    with pytest.raises(errors.ConfigError, match="model.ngram_weights=9 must be 0"):
        export.write(
            wide,
            tmp_path,
            activations="int8",
            many=dataclasses.replace(many, tasks=(dataclasses.replace(task, experiment=wide),)),
        )
    plain = reference.logits(base, stored, records=[("old",)])
    assert (abs(logits(tmp_path)[1] - plain) > 1e-3).all()


def test_rounding_changes_little(many, folders, run):
    """The numbers of the slots are those of the adapters, up to a step of 127 (the heads: of 7)."""
    for task in many.tasks:
        exact = task.experiment.weights
        for name, w in task.weights.items():
            dense = w.dense() if hasattr(w, "dense") else w
            share = 0.12 if name.startswith("head") else 0.04
            assert float(abs(dense - exact[name]).max()) <= share * float(abs(exact[name]).max()) + 1e-6, name


def test_slots_are_replaced(run, others, exported, tmp_path):
    folder, _ = exported
    (tmp_path / "others").mkdir()
    export.write(run, tmp_path / "others", activations="fp16", many=others)
    path = tmp_path / "others/tasks.bin"
    for task in others.tasks:
        require_logits(folder, task, path)
    slots = path.read_bytes()
    damaged = slots[:30] + bytes([slots[30] ^ 1]) + slots[31:]
    for data, status in ((damaged, 5), (b"\xff" * 1200, 5), (_fingerprinted(slots), 6)):
        path.write_bytes(data)
        done = subprocess.run([folder / "classify", "mood", path], input="a\n", capture_output=True, text=True)
        assert done.returncode == 3 and f"slot 0: status {status}\n" in done.stderr and not done.stdout
    for arguments, said in (
        (["anger"], f"no slot has the task anger; tasks: {' '.join(SECTIONS)}\n"),
        (["mood", tmp_path / "none.bin"], f"{tmp_path}/none.bin: No such file or directory\n"),
    ):
        done = subprocess.run([folder / "classify", *arguments], input="a\n", capture_output=True, text=True)
        assert (done.returncode, done.stderr, done.stdout) == (3, said, "")


def _fingerprinted(slots):
    """The first slot, with another fingerprint and its checksum mended."""
    size = int.from_bytes(slots[4:6], "little")
    body = slots[4:8] + b"abcd" + slots[12:size]
    return zlib.crc32(body).to_bytes(4, "little") + body + slots[size:]


def test_the_device(run, many, others, exported, tmp_path):
    pytest.importorskip("ziglang", reason="pip install '.[c]' brings the compiler")
    pytest.importorskip("unicorn", reason="pip install '.[c]' brings the emulator")
    folder, report = exported
    assert report["self_test_failures"] == 0 and report["flash"]["tasks"] == 1200
    figures = check.check(run, folder, emulated=2, many=many)
    assert all(row["agree"] == row["texts"] for row in figures.values()) and figures["mood"]["emulated_agree"] == 2
    with pytest.raises(errors.ConfigError, match="out has the tasks .* and --adapter gives"):
        check.check(run, folder, many=others)
    elf = toolchain.read(toolchain.firmware(folder)[0])
    board = emulator.Board(elf, outputs=3)
    for offset, name in ((600, "mood"), (0, "topic")):
        assert board.select(offset) == 0
        for text, wanted in zip(TEXTS, logits(folder, name)[1], strict=True):
            best, found = board.classify(text)
            np.testing.assert_array_equal(found[: len(wanted)], wanted.astype(np.float32))
            assert best == wanted.argmax()
    export.write(run, tmp_path, activations="fp16", many=others)
    board._machine.mem_write(elf.symbols["lwt_tasks"], (tmp_path / "tasks.bin").read_bytes())
    assert board.select(0) == 0
    wanted = logits(folder, "mood", tmp_path / "tasks.bin")[1][0]
    np.testing.assert_array_equal(board.classify(TEXTS[0])[1][:2], wanted.astype(np.float32))
    board._machine.mem_write(elf.symbols["lwt_tasks"] + 40, b"\0\0")
    places = board._put(TEXTS[0], None)
    assert board.select(0) == 5  # damaged
    assert board._call("classify", board._arena, board._task, *places, stacked=emulator.INPUT) == 2  # no task


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_a_program_in_cpp(exported, tmp_path):
    (tmp_path / "a.cc").write_text('#include "lwt.h"\nint main() { return lwt_select(nullptr, lwt_tasks[0]); }')
    command = ["g++", "-std=c++11", "-Wall", "-Werror", "-fsyntax-only", f"-I{exported[0]}/src", tmp_path / "a.cc"]
    assert subprocess.run(command).returncode == 0


def test_an_adapter_beyond_every_slot_is_refused(many):
    (task,) = [task for task in many.tasks if task.name == "mood"]
    name = next(iter(task.changes))
    for change in ((2, b"0" * 70_000), (300, b"")):
        large = dataclasses.replace(task, changes={name: change})
        with pytest.raises(errors.ConfigError, match="the adapter of task 'mood' takes .*; a slot has at most 32,768"):
            large.slot({name: 0}, 0)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"name": "hira", "rank": 1},
            "changes 'block_0/attention/query/kernel' in a way that the engine in C does not",
        ),
        ({"name": "ia3", "feedforward": ".*contract/kernel"}, "changes 'block_0/contract/kernel' in a way"),
        ({"name": "lora", "rank": 1, "targets": ".*conv/kernel"}, "task 'x': changes 'block_0/conv/kernel' in a way"),
        (
            {"name": "vera", "rank": 64},
            r"task 'x' takes [\d,]+ bytes, .*; a slot has 2,048: give --slot=\d+, or train an adapter of",
        ),
    ],
)
def test_other_changes_are_refused(section, message, run, made, tmp_path):
    folder = made(section["name"], tuple({"targets": LINEAR, **section}.items()))
    with pytest.raises(errors.ConfigError, match=message):
        export.export(run, tmp_path / "out", many=tasks.load(run, {"x": folder}))
    assert not (tmp_path / "out").exists()
