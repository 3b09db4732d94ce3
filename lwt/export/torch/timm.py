"""Converts public Vision Transformers to runs of lwt, and back.

    python -m lwt.export.torch.timm --config=configs/vit.py:size=b16 --checkpoint=ViT-B_16.npz --workdir=runs/b16
    python -m lwt.export.torch.timm --config=configs/vit.py:size=s16,image_size=384 --checkpoint=s.safetensors \\
        --workdir=runs/s
    python -m lwt.export.torch.timm --workdir=runs/cifar --out=cifar.safetensors        # writes a run's ViT for timm

`timm_layouts` reads files of the original release, of timm and of transformers. A missing or unexpected name is an
error. Positions are resized to the config's image size.

The result is an untrained run at step 0. `lwt.load`, `eval.py` and ``config.init_from`` (``base=runs/b16`` in
configs/vit.py) accept it like any other; its data need not exist. Its classes are those of the checkpoint's head:
numbers, or the names in the file ``--labels``, one per line. With ``--new_head`` the head is zero for these classes, as
in the paper's fine-tuning (section 3.2), and the layer before it in the authors' pre-trained files is dropped.
"""

import math
import pathlib
import re

import jax
import numpy as np
import safetensors.numpy
from absl import flags

from lwt import errors, files, trees
from lwt.data import labels
from lwt.export import folders
from lwt.export.torch import timm_layouts
from lwt.machine import command_line
from lwt.reparam import compose
from lwt.runs import assembly, checkpoint, config_file, experiment, run_config
from lwt.training import checks

METHODS = ("bicubic", "bilinear")
PLAIN = {"model.name": "vit", "data.kind": "images", "reparam.name": "none", "init_from": ""}  # of a config


def load(path, model, *, resize="bicubic", new_head=False):
    """Reads the weights of a checkpoint for a model.

    Args:
        path: the file.
        model: a `vit.ViT`; ``outputs=0`` takes the classes of the checkpoint.
        resize: how positions are resized to another image size; see `resized`.
        new_head: whether zeros for the model's classes replace the head and the layer before it.

    Returns:
        A flat dict of float32 arrays.

    Raises:
        lwt.errors.CheckpointError: see `timm_layouts.read`; or the checkpoint does not fit the model: names what is
            missing, unexpected, or of another shape.
    """
    weights, heads = timm_layouts.read(path)
    if new_head:
        weights = {name: w for name, w in weights.items() if not re.fullmatch(r"(head|pre_logits)/.*", name)}
        shapes = {"head/kernel": (model.width, model.outputs), "head/bias": (model.outputs,)}
        weights |= {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    elif not model.outputs:
        model = model.clone(outputs=np.size(weights.get("head/bias", 0)))
    if heads not in (0, model.heads):
        raise errors.CheckpointError(f"{path} has {heads} heads; model.heads={model.heads} must be as many")
    table = weights.get(timm_layouts.POSITION)
    if table is not None:
        side, token = model.image_size // model.patch, timm_layouts.TOKEN in weights
        weights[timm_layouts.POSITION] = resized(table, side, token=token, method=resize)
    shapes = jax.eval_shape(lambda: assembly.init_weights(model, jax.random.key(0)))
    difference = trees.differences(shapes, weights)
    if difference:
        raise errors.CheckpointError(f"{path} holds another model than the config's: {difference}")
    return {name: weights[name] for name in shapes}


def resized(table, side, *, token, method="bicubic"):
    """Resizes learned positions `[n d]` of a square grid to a grid of `side` × `side`; returns `[m d]`.

    "bicubic" is timm's method (``resample_abs_pos_embed``: Keys' kernel, a = -1/2, widened where the grid shrinks);
    "bilinear" is the authors' (``scipy.ndimage.zoom(order=1)``, which keeps the corners in place).

    Args:
        table: `[n d]`.
        side: rows, and columns, of the new grid.
        token: whether the first row belongs to a class token; it is kept.
        method: one of `METHODS`.

    Raises:
        lwt.errors.CheckpointError: the grid is not square.
    """
    kept, grid = table[: int(token)], table[int(token) :]
    old = math.isqrt(len(grid))
    if table.ndim != 2 or old**2 != len(grid) or not old:
        raise errors.CheckpointError(f"the {len(grid)} positions of the checkpoint form no square grid")
    if old == side:
        return table
    grid = grid.reshape(old, old, -1)
    if method == "bicubic":
        new = np.asarray(jax.image.resize(grid, (side, side, grid.shape[-1]), "cubic", antialias=True))
    else:
        at = np.linspace(0, old - 1, side)
        shares = np.stack([np.interp(at, np.arange(old), row) for row in np.eye(old)], axis=1)  # [side old]
        new = np.einsum("is,jt,std->ijd", shares, shares, grid).astype(np.float32)
    return np.concatenate([kept, new.reshape(side**2, -1)])


def convert(config, path, *, workdir, resize="bicubic", names=(), new_head=False):
    """Writes a run whose checkpoint of step 0 has the weights of a file; returns these.

    Args:
        config: of the run; its model is a ViT. Its data are not opened.
        path: the file.
        workdir: a folder that holds no run yet.
        resize: see `load`.
        names: names of the classes; empty: their numbers.
        new_head: see `load`.

    Raises:
        lwt.errors.ConfigError: the config is not that of a plain ViT with all weights trained, a new head has no names
            of classes, or `workdir` holds a run.
        lwt.errors.CheckpointError: see `load`.
    """
    checks.check(config)
    flat = trees.flatten(config.to_dict())
    for key, wanted in PLAIN.items():
        value = flat[key.replace(".", "/")]
        if value != wanted:
            raise errors.ConfigError(f"{key}={value!r} must be {wanted!r} for the run of a public ViT")
    if new_head and not names:
        raise errors.ConfigError("a new head needs the names of its classes: --labels=FILE")
    model = assembly.make_model(config, 0).clone(outputs=len(names))
    weights = load(path, model, resize=resize, new_head=new_head)
    model = model.clone(outputs=len(weights["head/bias"]))
    trainable, frozen = assembly.initial_params(config, model, reparam=compose.build(config.reparam), base=weights)
    if frozen:
        raise errors.ConfigError(
            f"optimizer.trainable={config.optimizer.trainable} must be ('.*',) for the run of a public ViT"
        )
    if checkpoint.of_run(workdir).last_step() is not None:
        raise errors.ConfigError(f"{workdir} already holds a run; give another --workdir")
    run_config.keep(config, workdir)
    shape = (model.image_size, model.image_size, model.channels, "uint8")
    kept = {"names": [*names] or [*map(str, range(model.outputs))], "image": shape}
    files.write_json(pathlib.Path(workdir, labels.FILE), kept, indent=None, checked=True)
    identity = {**assembly.make_data(config, workdir, make=False).identity, "base": ""}
    checkpoint.save_initial(workdir, config, jax.device_put(trainable), identity=identity)
    return weights


def write(source, path):
    """Writes the weights of a ViT as a .safetensors file with timm's names; returns their number.

    Raises:
        lwt.errors.ConfigError: the model is not a ViT, or timm does not support it; or the file is not an older export,
            or cannot be written.
    """
    if source.config.model.name != "vit":
        raise errors.ConfigError(f"{source.workdir} has model.name={source.config.model.name!r}; it must be 'vit'")
    arrays = timm_layouts.to_timm(source.weights, source.model)
    with folders.new_file(path, kind="safetensors"):
        files.write_bytes(path, safetensors.numpy.save(arrays))
    return trees.count(arrays)


def main():
    """The program: converts in one direction, and prints the result."""
    values = flags.FLAGS
    if values.out:
        command_line.refuse(["config", "checkpoint", "resize", "labels", "new_head"], where="with --out")
        source = experiment.load(values.workdir, checkpoint=values.which)
        command_line.report({"file": values.out, "checkpoint": source.step, "weights": write(source, values.out)})
        return
    if values.config is None or not values.checkpoint:
        raise errors.ConfigError("give --config and --checkpoint to make a run, or --out to write the weights of one")
    command_line.refuse(["which"], where="without --out")
    names = labels.read(pathlib.Path(values.labels)) if values.labels else ()
    if values.labels and not names:
        raise errors.ConfigError(f"--labels={values.labels} does not exist; give a file with one class name per line")
    weights = convert(
        values.config,
        values.checkpoint,
        workdir=values.workdir,
        resize=values.resize,
        names=names,
        new_head=values.new_head,
    )
    command_line.report(
        {"workdir": values.workdir, "classes": len(weights["head/bias"]), "weights": trees.count(weights)}
    )


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    config_file.define("Config of the run to make, such as configs/vit.py:size=b16.")
    flags.DEFINE_string(
        "checkpoint",
        "",
        "File to read: .npz of the original release, or .safetensors with timm's or transformers' names.",
    )
    flags.DEFINE_string("workdir", None, "Folder of the run to make, or with --out of the run to read.")
    flags.DEFINE_enum("resize", "bicubic", METHODS, "How to resize positions.")
    flags.DEFINE_string("labels", "", "File with the names of the classes, one per line.")
    flags.DEFINE_bool("new_head", False, "Replace the head with zeros for the classes of --labels.")
    flags.DEFINE_string("out", "", "File to write the run's weights to: .safetensors with timm's names.")
    flags.DEFINE_string("which", "best", "With --out: checkpoint to read: best, last or a step.")
    command_line.run(main, required=["workdir"])
