"""Makes the slots of a program of many tasks: each has an adapter on one base, and a head; see source/tasks.h.

A slot has LoRA, or IA3's factors of outputs, in int8, and a head in int8 or int4. The slots of an export are also its
file tasks.bin. The program of another export of the same base takes them, too.
"""

import dataclasses
import struct
import zlib

import numpy as np
from absl import flags

from lwt import errors, values
from lwt.export.c import literals, reference, weights
from lwt.layers import linear, quantized_weight
from lwt.machine import command_line
from lwt.reparam import adapters
from lwt.runs import adapter_folder, experiment

FILE = "tasks.bin"
SLOT = 2048  # bytes
LARGEST = 1 << 15  # bytes of a slot, at most
OWN = ("outputs", "tasks", "slot_bytes", "golden_bytes", "tolerance")  # of the shape: what no slot depends on
HEAD = "head/classifier"
SAME = ("clean", "row_length", "cut")  # keys of config.data that all tasks share
FREE = ("outputs", "dropout", "attention_dropout", "word_dropout", "parent", "name")  # fields of a model
HEADS = ("int8", "int4")


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of a program.

    Attributes:
        name: for `lwt_select`'s callers.
        experiment: the adapter, an `experiment.Experiment` on the base.
        weights: flat dict: the model with the numbers of the program.
        changes: ``{name of a linear layer: (rank, bytes)}``, as in source/tasks.h.
    """

    name: str
    experiment: experiment.Experiment
    weights: dict
    changes: dict

    def slot(self, places, fingerprint):
        """``(the bytes, how many of them are of "adapter", "head" and "names")``.

        Args:
            places: ``{name of a linear layer: its number}``.
            fingerprint: 32 bits that identify the network.

        Raises:
            lwt.errors.ConfigError: the task changes another weight than a linear layer's.
        """
        other = next((name for name in self.changes if name not in places), None)
        if other:
            raise _refusal(f"task {self.name!r}", f"{other}/kernel")
        kernel = self.weights[f"{HEAD}/kernel"]
        bits, labels = weights.BITS[kernel.format], self.experiment.labels
        rows = np.asarray(kernel.values).T
        if bits == 4:  # every block is packed for itself
            blocks = np.split(rows, range(kernel.block, rows.shape[1], kernel.block), axis=1)
            rows = np.concatenate([weights.packed(block) for block in blocks], axis=1)
        arrays = (self.weights[f"{HEAD}/bias"], np.asarray(kernel.scales).T)
        head = b"".join(np.asarray(array, np.float16).tobytes() for array in arrays) + rows.astype(np.int8).tobytes()
        names = b"".join(text.encode() + b"\0" for text in map(literals.one_line, (self.name, *labels)))
        taken = sum(4 + len(own) for _, own in self.changes.values())
        size = 16 + taken + len(head) + len(names)
        if size > LARGEST or any(rank > 255 for rank, _ in self.changes.values()):
            raise errors.ConfigError(
                f"the adapter of task {self.name!r} takes {taken:,} of {size:,} bytes; a slot has at most {LARGEST:,}, "
                "and a rank is at most 255: train an adapter of lower rank or fewer targets"
            )
        adapter = b"".join(struct.pack("<BBH", places[n], r, len(own)) + own for n, (r, own) in self.changes.items())
        about = struct.pack("<HHIBBH", size, len(labels), fingerprint, len(self.changes), bits, kernel.block)
        body = about + adapter + head + names
        parts = {"adapter": len(adapter), "head": len(head), "names": len(names), "total": size}
        return struct.pack("<I", zlib.crc32(body)) + body, parts


@dataclasses.dataclass(frozen=True)
class Tasks:
    """The tasks of a program.

    Attributes:
        tasks: tuple of `Task` objects, in the order of their slots.
        base: flat dict: the weights that they share, as the program stores them.
        slot_bytes: of each slot.
    """

    tasks: tuple
    base: dict
    slot_bytes: int = SLOT

    @property
    def largest(self):
        """The experiment of the task with the most classes."""
        return max((task.experiment for task in self.tasks), key=lambda opened: len(opened.labels))

    def shape(self, places):
        """The macros of a program; see `parts.Network`."""
        return {"tasks": len(self.tasks), "places": len(places), "slot_bytes": self.slot_bytes}

    def slots(self, places, fingerprint):
        """``(the slots as bytes, {task: what the report says of it})``; see `Task.slot`.

        Raises:
            lwt.errors.ConfigError: a task does not fit into its slot; says what takes how many bytes.
        """
        slots, about = [], {}
        for task in self.tasks:
            data, parts = task.slot(places, fingerprint)
            if len(data) > self.slot_bytes:
                needs = max(len(each.slot(places, fingerprint)[0]) for each in self.tasks)
                larger = f"give --slot={needs}, or train" if needs <= LARGEST else "train"
                raise errors.ConfigError(
                    f"task {task.name!r} takes {len(data):,} bytes, {parts['adapter']:,} of them its adapter; a slot "
                    f"has {self.slot_bytes:,}: {larger} an adapter of lower rank or fewer targets"
                )
            slots.append(data.ljust(self.slot_bytes, b"\xff"))
            method = task.experiment.config.reparam["name"]
            about[task.name] = {"bytes": parts, "method": method, "classes": list(task.experiment.labels)}
        return slots, about


def source(slots):
    """The C definition of `lwt_tasks`."""
    rows = "".join("{" + ",".join(map(str, np.frombuffer(slot, "<u2"))) + "},\n" for slot in slots)
    return f"LWT_IN(tasks) const uint16_t lwt_tasks[LWT_TASKS][LWT_SLOT_BYTES / 2] = {{\n{rows}}};\n"


def define_flags():
    """Defines the flags that `open_run` and `of_flags` read."""
    flags.DEFINE_string("weights", "", "File of lwt.export.quantize, in place of the run's own weights.")
    flags.DEFINE_multi_string("adapter", [], "NAME=FOLDER of a task's adapter on this run; once for each task.")
    flags.DEFINE_enum("heads", None, HEADS, "Type of the weights in the tasks' heads; default: int8.")
    flags.DEFINE_integer("slot", None, f"Bytes of a task; default: {SLOT}.", lower_bound=64, upper_bound=LARGEST)


def open_run(**options):
    """The run that the flags name, with the weights of the file ``--weights``; `options` as in `experiment.load`."""
    given = flags.FLAGS
    opened = experiment.load(given.workdir, checkpoint=given.checkpoint, base=given.base, **options)
    return opened.with_file(given.weights) if given.weights else opened


def of_flags(base):
    """The `Tasks` of the program's flags on the base; None if no adapter is given."""
    given = flags.FLAGS
    folders = values.named("adapter", given.adapter)
    if not folders:
        command_line.refuse(["heads", "slot"], where="without --adapter")
        return None
    return load(base, folders, heads=given.heads or "int8", slot_bytes=given.slot or SLOT)


def load(base, folders, *, heads="int8", slot_bytes=SLOT):
    """Opens adapters on one base, and rounds them as the program does.

    Args:
        base: an `experiment.Experiment`.
        folders: ``{name: folder}`` of adapters, or of runs that hold one.
        heads: type of the heads' weights, "int8" or "int4".
        slot_bytes: of each slot; even.

    Returns:
        The `Tasks`.

    Raises:
        lwt.errors.ConfigError: an adapter is not a classifier, differs in what all share, or changes the base in a way
            that the engine in C does not support.
        lwt.errors.CheckpointError: see `experiment.load`.
    """
    values.choice(*HEADS).require("heads", heads)
    values.whole(64, LARGEST).require("slot_bytes", slot_bytes)
    stored, used = weights.of(base)
    tasks = []
    for name, folder in folders.items():
        folder = adapter_folder.of(folder)
        opened = experiment.load(folder, base=base)
        where = f"adapter {name!r} ({folder})"
        kind = opened.config.task["name"]
        if not opened.labels or kind == "multilabel":
            raise errors.ConfigError(f"{where}: task.name={kind!r} must give one of several classes")
        options = {"heads": heads, "block": used.block, "where": where}
        tasks.append(rounded(name, opened, adapter=adapters.load(folder), stored=stored, **options))
        _check_same(tasks[0].experiment, opened, where)
    first = tasks[0].weights
    shared = {name: w for name, w in stored.items() if name in first and not name.startswith("head/")}
    return Tasks(tuple(tasks), shared, slot_bytes + slot_bytes % 2)


def _check_same(first, other, where):
    """Refuses another model, or other inputs, than those of the first task."""
    wanted = _shared(first)
    for key, value in _shared(other).items():
        if value != wanted[key]:
            raise errors.ConfigError(f"{where}: {key}={value} must be that of the first adapter, {wanted[key]}")


def _shared(opened):
    fields = (field.name for field in dataclasses.fields(opened.model) if field.name not in FREE)
    found = {f"model.{name}": str(getattr(opened.model, name)) for name in fields}
    found |= {f"data.{key}": str(opened.config.data[key]) for key in SAME}
    return {"texts of a record": reference.sides(opened), **found}


def rounded(name, opened, *, adapter, stored, heads, block, where):
    """The `Task` of an adapter.

    Args:
        name, opened: its name and its `experiment.Experiment`.
        adapter: an `adapters.Adapter`.
        stored: flat dict: the weights of the base as the program stores them.
        heads, block: type of the head's weights, and how many share a scale.
        where: begins messages.
    """
    expanded, changes = adapter.expand(stored), {}
    found = dict(expanded)
    for leaf, w in expanded.items():
        kernel = f"{leaf.rpartition('/')[0]}/kernel"
        scaled = leaf.endswith("/bias") and isinstance(expanded.get(kernel), linear.ColumnScaled)
        if w is stored.get(leaf) or scaled or leaf.startswith(f"{HEAD}/"):
            continue
        if leaf in adapter.whole or leaf != kernel or getattr(w, "base", None) is not stored[leaf]:
            raise _refusal(where, leaf)
        if isinstance(w, linear.ColumnScaled):
            own, found[leaf] = _scaled(w)
            bias = leaf.removesuffix("kernel") + "bias"
            found |= {bias: stored[bias] * found[leaf].scale} if bias in stored else {}
        elif isinstance(w, linear.LowRank):
            own, found[leaf] = _low_rank(w)
        else:
            raise _refusal(where, leaf)
        changes[leaf.removesuffix("/kernel")] = own
    kernel = found[f"{HEAD}/kernel"]
    found[f"{HEAD}/kernel"] = quantized_weight.quantize(kernel, format=heads, block=min(block or len(kernel), 512))
    bias = found.get(f"{HEAD}/bias", np.zeros(kernel.shape[1]))
    found[f"{HEAD}/bias"] = np.asarray(bias, np.float16).astype(np.float32)
    return Task(name, opened, found, changes)


def _refusal(where, leaf):
    return errors.ConfigError(
        f"{where}: changes {leaf!r} in a way that the engine in C does not have; it has LoRA, and IA3 of outputs "
        "(reparam.feedforward=())"
    )


def _scaled(w):
    """``((rank, bytes), the node as the program has it)`` of a kernel with IA3's factors."""
    units = quantized_weight.quantize(np.asarray(w.scale)[None] - 1, block=0, axis=-1)
    return (0, _bytes(units.scales, units.values)), dataclasses.replace(w, scale=1 + units.dense()[0])


def _low_rank(w):
    """The same of a kernel with LoRA."""
    a = quantized_weight.quantize(w.a, block=0)
    b = quantized_weight.quantize(w.scale * w.b, block=0, axis=-1)
    own = _bytes(a.scales, b.scales, np.asarray(a.values).T, b.values)
    return (w.a.shape[1], own), dataclasses.replace(w, a=a.dense(), b=b.dense(), scale=np.float32(1))


def _bytes(*arrays):
    """The bytes of arrays, in an even number."""
    data = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return data + b"\0" * (len(data) % 2)
