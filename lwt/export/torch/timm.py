"""Public Vision Transformers as runs of lwt, and back.

    python -m lwt.export.torch.timm --config=configs/vit.py:size=b16 --checkpoint=ViT-B_16.npz --workdir=runs/b16
    python -m lwt.export.torch.timm --config=configs/vit.py:size=s16,image_size=384 --checkpoint=s.safetensors \\
        --workdir=runs/s
    python -m lwt.export.torch.timm --workdir=runs/cifar --out=cifar.safetensors        # any run of a ViT, for timm

`lwt/export/torch/timm_layouts.py` has the files that are read: of the original release, of timm and of transformers.
A missing name, or one too many, is an error. Positions are resized to the config's image size.

What comes out is a run at step 0 without training: `lwt.load`, `eval.py` and ``config.init_from`` (``base=runs/b16`` in
configs/vit.py) take it as any other. Its data need not be there. Its classes are those of the checkpoint's head, by
number, or as ``--labels`` has them, one name a line; with ``--new_head`` the head has zeros for these classes instead,
as in the paper's fine-tuning (section 3.2), and the layer that stands before it in the authors' pre-trained files goes.
"""

import json
import math
import pathlib
import re

import jax
import numpy as np
import safetensors.numpy
from absl import flags
from ml_collections import config_flags

from lwt import errors, files, trees
from lwt.data.kinds import supervised
from lwt.data.sources import folder
from lwt.export.torch import timm_layouts
from lwt.machine import command_line
from lwt.reparam import compose
from lwt.runs import assembly, checkpoint, experiment, run_config
from lwt.training import checks

METHODS = ("bicubic", "bilinear")
PLAIN = {"model.name": "vit", "data.kind": "images", "reparam.name": "none", "init_from": ""}  # of a config


def load(path, model, *, resize="bicubic", new_head=False):
    """The weights of a checkpoint for a model.

    Args:
        path: of the file.
        model: a `vit.ViT`; ``outputs=0`` takes the classes of the checkpoint.
        resize: how positions are made to fit another image size; see `resized`.
        new_head: zeros for the model's classes in the place of the head, and of the layer in front of it.

    Returns:
        A flat dict of float32 arrays.

    Raises:
        lwt.errors.CheckpointError: see `timm_layouts.read`; or the checkpoint is that of another model: names what is
            missing, unexpected, or of another shape.
    """
    weights, heads = timm_layouts.read(path)
    if new_head:
        weights = {name: w for name, w in weights.items() if not re.fullmatch(r"(head|pre_logits)/.*", name)}
        shapes = {"head/kernel": (model.width, model.outputs), "head/bias": (model.outputs,)}
        weights |= {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    elif not model.outputs:
        model = model.clone(outputs=len(weights.get("head/bias", (0,))))
    if heads not in (0, model.heads):
        raise errors.CheckpointError(f"{path} has {heads} heads; model.heads={model.heads} should be as many")
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
    """Learned positions `[n d]` of a square grid, for a grid of `side` × `side`; a class token's row stays first.

    "bicubic" is what timm does (``resample_abs_pos_embed``: Keys' kernel, a = -1/2, widened where the grid shrinks),
    "bilinear" what the authors do (``scipy.ndimage.zoom(order=1)``: the corners stay where they are).

    Raises:
        lwt.errors.CheckpointError: the grid is not square.
    """
    kept, grid = table[: int(token)], table[int(token) :]
    old = math.isqrt(len(grid))
    if old**2 != len(grid):
        raise errors.CheckpointError(f"the {len(grid)} positions of the checkpoint are no square grid")
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


def convert(config, path, workdir, *, resize="bicubic", names=(), new_head=False):
    """Leaves a run in `workdir` whose checkpoint of step 0 has the weights of a file; returns these.

    Args:
        config: of the run; its model is a ViT. Its data are not opened.
        path, resize, new_head: see `load`.
        names: of the classes; empty: their numbers.

    Raises:
        lwt.errors.ConfigError: the config has more than a ViT whose weights are all trained, the names of a new head's
            classes are not given, or there is a run in `workdir`.
        lwt.errors.CheckpointError: see `load`.
    """
    checks.check(config)
    found = trees.flatten(config.to_dict())
    for key, wanted in PLAIN.items():
        value = found[key.replace(".", "/")]
        if value != wanted:
            raise errors.ConfigError(f"{key}={value!r} should be {wanted!r} for the run of a public ViT")
    if new_head and not names:
        raise errors.ConfigError("a new head needs the names of its classes: --labels=FILE")
    model = assembly.make_model(config, 0).clone(outputs=len(names))
    weights = load(path, model, resize=resize, new_head=new_head)
    model = model.clone(outputs=len(weights["head/bias"]))
    trainable, frozen = assembly.initial_params(config, model, compose.build(config.reparam), weights)
    if frozen:
        raise errors.ConfigError(
            f"optimizer.trainable={config.optimizer.trainable} should be ('.*',): a run keeps these"
        )
    if checkpoint.of_run(workdir).last_step() is not None:
        raise errors.ConfigError(f"{workdir} already holds a run; give another --workdir")
    run_config.keep(config, workdir)
    shape = (model.image_size, model.image_size, model.channels, "uint8")
    kept = {"names": [*names] or [*map(str, range(model.outputs))], "image": shape}
    pathlib.Path(workdir, supervised.LABELS).write_text(json.dumps(kept), encoding="utf-8")
    identity = {**assembly.make_data(config, workdir, make=False).identity, "base": ""}
    checkpoint.save_initial(workdir, config, jax.device_put(trainable), identity=identity)
    return weights


def write(path, opened):
    """Writes the weights of a run of a ViT as a .safetensors with timm's names; returns how many there are.

    Raises:
        lwt.errors.ConfigError: it is no ViT, or one that timm does not have; or the file cannot be written.
    """
    if opened.config.model.name != "vit":
        raise errors.ConfigError(f"{opened.workdir} has model.name={opened.config.model.name!r}; it should be 'vit'")
    arrays = timm_layouts.to_timm(opened.weights, opened.model)
    try:
        files.write_bytes(path, safetensors.numpy.save(arrays))
    except OSError as error:
        raise errors.ConfigError(f"--out={path} cannot be written ({error.strerror}); give another file") from error
    return trees.count(arrays)


def main():
    """The program: converts one way or the other, and prints what came of it."""
    values = flags.FLAGS
    if values.out:
        opened = experiment.load(values.workdir, checkpoint=values.which)
        command_line.report({"file": values.out, "checkpoint": opened.step, "weights": write(values.out, opened)})
        return
    if values.config is None or not values.checkpoint:
        raise errors.ConfigError("give --config and --checkpoint to make a run, or --out to write the weights of one")
    names = folder.classes(pathlib.Path(values.labels)) if values.labels else ()
    if values.labels and not names:
        raise errors.ConfigError(f"--labels={values.labels} is not there; it should name the classes, one a line")
    weights = convert(
        values.config, values.checkpoint, values.workdir, resize=values.resize, names=names, new_head=values.new_head
    )
    command_line.report(
        {"workdir": values.workdir, "classes": len(weights["head/bias"]), "weights": trees.count(weights)}
    )


if __name__ == "__main__":  # flags belong to the program: the functions above are imported beside other programs' flags
    config_flags.DEFINE_config_file("config", None, "Of the run to make: configs/vit.py:size=b16, for example.")
    flags.DEFINE_string(
        "checkpoint", "", "A .npz of the original release, or a .safetensors with timm's or transformers' names."
    )
    flags.DEFINE_string("workdir", None, "Folder of the run to make, or with --out of the one to read.")
    flags.DEFINE_enum("resize", "bicubic", METHODS, "How positions are resized.")
    flags.DEFINE_string("labels", "", "A file with the names of the classes, one a line.")
    flags.DEFINE_bool("new_head", False, "A head of zeros for the classes of --labels.")
    flags.DEFINE_string("out", "", "A .safetensors to write the run's weights to, with timm's names.")
    flags.DEFINE_string("which", "best", "With --out: the checkpoint best, last or a step.")
    command_line.run(main, required=["workdir"])
