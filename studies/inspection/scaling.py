"""How training steps spread over devices: the operations, memory and communication of programs for 1 to 256 of them.

    python -m studies.inspection.scaling --out=docs/results/scaling
    python -m studies.inspection.scaling --devices=1,4 --only=vit --out=scaling

Compiles the whole step of each config in `WORK` for simulated devices of the CPU, in a process for each number, and
reads the compiled program. No step runs. Writes README.md and results.json.
"""

import functools
import json
import os
import re
import subprocess
import sys
import time

from absl import flags

from lwt import errors
from lwt.machine import command_line, hardware
from lwt.report import pages, records, results

WORK = {  # title -> config
    "translator": "configs/translation.py:data=wmt17",
    "LoRA of it": "configs/lora_ranks.py:method=lora,rank=8",
    "EmbBERT, pre-training": "configs/embbert_pretrain.py",
    "ViT of the VLoRA paper": "configs/vlora_cifar10.py",
}
PLACEMENTS = {"copies": ((r".*", ()),), "slices": ((r".*", ("data",)),)}  # of the weights and moments: data, FSDP
COUNTS = "1,8,64,256"
QUICKLY = "--xla_backend_optimization_level=0"  # of machine code, which never runs
FLOPS, LINK = 197e12 * 0.4, 50e9  # what the plan assumes of a device: operations and bytes a second
COLLECTIVES = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
COLLECTIVE = re.compile(rf"= (\(.*?\)|\S+) ({COLLECTIVES})(?:-start)?\(.*")
ARRAY = re.compile(r"\b([a-z]+)(\d+)?\[([\d,]*)\]")
HOW_TO_READ = """\
Every device takes as many rows as the config has in all, so the batch grows with the devices. With "copies", every
device holds all weights and moments, and the gradients are summed (data parallelism). With "slices", every device holds
a part of each and gathers weights when it needs them (FSDP). A dimension that the number of devices does not divide
stays whole, as most do at 256.

Programs are compiled, not run. "GFLOP" counts both passes over the rows of one device (`lwt cost`). "State" is the
memory of one device for weights, moments and batch, "arrays" what its step allocates in addition. "Collectives" are
operations that wait for other devices, and "sent" are the bytes that leave a device if each of them runs around a ring.

The last three columns are a plan, not a measurement. It assumes devices with 79 TFLOP/s (40 % of a TPU v5e's peak in
bfloat16, more than narrow layers reach) and 50 GB/s to the next one. With fewer than "rows to balance" rows per device,
communication takes longer than computation.
"""


def sent(program, devices):
    """``(number of collectives, bytes that leave a device)`` of a compiled program's text.

    Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of Collective Communication Operations in MPICH", ring
    algorithms.

    Raises:
        lwt.errors.DataError: a collective lies in a loop, whose rounds the text does not tell.
    """
    count, total, share = 0, 0.0, (devices - 1) / devices
    for line in program.splitlines():
        found = COLLECTIVE.search(line)
        if not found:
            continue
        if "while/body" in line:
            raise errors.DataError(f"a collective in a loop: {line.strip()[:200]}")
        factor = {"all-reduce": 2 * share, "reduce-scatter": devices - 1, "collective-permute": 1}
        count += 1
        total += factor.get(found.group(2), share) * nbytes(found.group(1))
    return count, total


def nbytes(shape):
    """Bytes of an array or tuple as a program's text has it: ``(f32[8,2]{1,0}, pred[])`` -> 65."""
    total = 0
    for _, bits, sizes in ARRAY.findall(shape):
        count = 1
        for size in filter(None, sizes.split(",")):
            count *= int(size)
        total += count * (int(bits) // 8 if bits else 1)
    return total


def compiled(config, *, placement):
    """The compiled step of a config for all devices of this process, without data or weights."""
    import jax

    from lwt.inspect import cost
    from lwt.machine import devices
    from lwt.reparam import compose
    from lwt.runs import assembly
    from lwt.training import build, optim, step

    mesh, rows, config.sharding = devices.make_mesh({"data": -1}), config.data.rows, PLACEMENTS[placement]
    reparam, task = compose.build(config.reparam), assembly.make_task(config)
    loss = build.make_loss(cost.model_of(config, cost.vocabulary_of(config)), task, reparam=reparam)
    trainable, frozen = cost.shapes(config)
    build_optimizer = functools.partial(
        optim.build, config.optimizer, trainable, steps=config.steps or 1, frozen=frozen, reparam=reparam
    )
    batch = cost.batch_of(config, rows=rows * mesh.size, row_length=config.data.row_length)
    sums = jax.eval_shape(lambda *given: loss(*given, 0, jax.random.key(0))[2], trainable, frozen, batch)
    state = jax.eval_shape(
        functools.partial(
            step.init_state, optimizer=build_optimizer()[0], seed=0, sums=(*sums, "grad_norm", "steps"),
            averaged=config.optimizer.ema > 0,
        ),
        trainable,
    )  # fmt: skip
    update = build.make_update(config, loss, mesh=mesh, make_optimizer=build_optimizer, advance=None)
    places = [devices.shardings(mesh, tree, rules=config.sharding) for tree in (state, frozen)]
    given = [*map(placed, (state, frozen), places), placed(batch, dict.fromkeys(batch, devices.by_rows(mesh)))]
    program = jax.jit(update, donate_argnums=0, out_shardings=places[0])
    return program.lower(*given, 1e-3).compile()


def placed(tree, places):
    """The shapes of `tree` with their shardings."""
    import jax

    return jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), tree, places)


def figures(title, *, devices, placement):
    """A row of the table: what one process for `devices` devices found."""
    from lwt.inspect import cost
    from lwt.runs import config_file

    config = config_file.load(WORK[title])
    config.precision = "bfloat16"
    made, operations = compiled(config, placement=placement), None
    if devices == 1:
        operations = cost.measure(config)["flops_per_example"]["forward_backward"] * config.data.rows
    memory = made.memory_analysis()
    count, total = sent(made.as_text(), devices)
    return {
        "work": title, "config": WORK[title], "devices": devices, "placement": placement, "rows": config.data.rows,
        "flops": operations, "state_bytes": memory.argument_size_in_bytes, "array_bytes": memory.temp_size_in_bytes,
        "collectives": count, "sent_bytes": total,
    }  # fmt: skip


def measure(values):
    """What the page says: the rows of all works, numbers of devices and placements."""
    begin, rows = time.perf_counter(), []
    for title in WORK:
        if re.search(values.only, title):
            for count in map(int, values.devices):
                for placement in PLACEMENTS if count > 1 else ["copies"]:
                    command = [sys.executable, "-m", "studies.inspection.scaling", f"--devices={count}"]
                    command += [f"--child={title}", f"--placement={placement}"]
                    simulated = f"--xla_force_host_platform_device_count={count} {QUICKLY}"
                    environment = {**os.environ, "XLA_FLAGS": simulated, "JAX_PLATFORMS": "cpu"}
                    done = subprocess.run(command, env=environment, capture_output=True, text=True)
                    if done.returncode:
                        raise errors.DataError(f"{title}, {count} devices: {done.stderr.strip().splitlines()[-1]}")
                    rows.append(json.loads(done.stdout.splitlines()[-1]))
    about = {"command_line": pages.command_line(), "machine": hardware.describe()}
    return {"rows": rows, "seconds": round(time.perf_counter() - begin, 1)} | about


def write(out, *, rows, seconds, command_line, machine):
    """Writes the page; returns the names of its files."""
    page = pages.Page(out, "Steps over many devices", command_line=command_line)
    page.add(HOW_TO_READ)
    alone = {row["work"]: row["flops"] for row in rows if row["flops"]}
    for title in dict.fromkeys(row["work"] for row in rows):
        own = [row for row in rows if row["work"] == title]
        page.add(
            f"## {title}",
            f"`{own[0]['config']}`, {own[0]['rows']} rows per device, bfloat16.",
            "",
            table(own, alone[title]),
        )
    page.rows(
        [
            {
                "config": row["config"], "seed": None, "split": "", "paper": None, "hardware": machine,
                "seconds": seconds, "overrides": {"devices": row["devices"], "placement": row["placement"]},
                "command": command_line, "metric": metric, "value": row[metric],
            }
            for row in rows for metric in ("state_bytes", "array_bytes", "collectives", "sent_bytes")
        ]
    )  # fmt: skip
    return page.write()


def table(rows, operations):
    """The Markdown table of one work; `operations` of a device and step."""
    body = []
    for row in rows:
        computing, sending = 1e3 * operations / FLOPS, 1e3 * row["sent_bytes"] / LINK
        cells = [f"{row['devices']}", row["placement"] if row["devices"] > 1 else "–", f"{operations / 1e9:,.1f}"]
        cells += [f"{row[key] / 1e6:,.1f}" for key in ("state_bytes", "array_bytes")]
        cells += [f"{row['collectives']}", f"{row['sent_bytes'] / 1e6:,.1f}", f"{computing:.2f}", f"{sending:.2f}"]
        body.append([*cells, f"{row['rows'] * sending / computing:,.0f}"])
    header = ["devices", "weights", "GFLOP", "state, MB", "arrays, MB", "collectives", "sent, MB"]
    return results.markdown([*header, "compute, ms", "send, ms", "rows to balance"], body)


def main():
    """The program."""
    values = flags.FLAGS
    if values.child:
        found = figures(values.child, devices=int(values.devices[0]), placement=values.placement)
        print(json.dumps(found))
        return
    facts = records.of_page(values.out, functools.partial(measure, values), report_only=values.report_only)
    command_line.report({"out": values.out, "files": write(values.out, **facts), "programs": len(facts["rows"])})


if __name__ == "__main__":
    flags.DEFINE_string("out", "docs/results/scaling", "Folder of the page.")
    flags.DEFINE_list("devices", COUNTS, "Numbers of devices.")
    command_line.define_regex("only", ".", help="Regular expression for the titles of the works.")
    flags.DEFINE_enum("child", "", ["", *WORK], "Compile this work alone, and print its figures as JSON.")
    flags.DEFINE_enum("placement", "copies", list(PLACEMENTS), "Of the weights, for --child.")
    pages.define_report_only()
    command_line.run(main, required=[])
