"""The mesh of devices and the placement of arrays: data sharded by rows, weights replicated or sharded by rule.

The same jitted step runs on one CPU, on the devices of one host and on several processes; only this file counts
devices.
"""

import functools
import math

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from lwt import errors, trees


def make_mesh(axes):
    """A mesh from ``{"data": -1, ...}``: axis name -> number of devices, -1 for all that the other axes leave."""
    sizes = dict(axes)
    open_axes = [name for name, size in sizes.items() if size == -1]
    fixed = math.prod(size for size in sizes.values() if size != -1)
    if len(open_axes) == 1:
        sizes[open_axes[0]] = jax.device_count() // max(fixed, 1)
    known = "data" in sizes and min(sizes.values()) > 0
    if not known or math.prod(sizes.values()) != jax.device_count():
        raise errors.ConfigError(
            f"mesh={dict(axes)} does not fit {jax.device_count()} devices: it needs an axis 'data', at most one -1, "
            "and sizes whose product is the number of devices"
        )
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))


def replicated(mesh):
    """The sharding that puts the whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def by_rows(mesh):
    """The sharding that splits the first axis over the mesh's ``data`` axis."""
    return NamedSharding(mesh, PartitionSpec("data"))


def over(mesh, function):
    """`function`, traced in the context of `mesh` if that has several devices; see `lwt/layers/losses/chunks.py`."""
    if mesh.size == 1:
        return function

    @functools.wraps(function)
    def traced(*args, **options):
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            return function(*args, **options)

    return traced


def check_rows(mesh, rows, *, what):
    """Raises `lwt.errors.ConfigError` unless `rows` divides evenly among the devices of the data axis, and each
    process's devices need the rows that it makes: its contiguous share."""
    if rows % mesh.shape["data"]:
        raise errors.ConfigError(f"{what}={rows} must be a multiple of the {mesh.shape['data']} devices of mesh.data")
    placed = by_rows(mesh).devices_indices_map((rows,)).items()
    check_shares([(device.process_index, *index.indices(rows)[:2]) for device, (index,) in placed], rows)


def check_shares(needed, rows):
    """Raises `lwt.errors.ConfigError` unless processes make what their devices need of `rows`: contiguous shares.

    Args:
        needed: ``(process, start, stop)`` of every device.
    """
    size = rows // len({process for process, _, _ in needed})
    for process, start, stop in needed:
        if not size * process <= start <= stop <= size * (process + 1):
            raise errors.ConfigError(
                f"mesh: the devices of process {process} need rows that other processes make; put data first, as a "
                "multiple of the number of processes"
            )


def wait_for_all(what):
    """Blocks until every process has reached this point, which `what` names."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


def shardings(mesh, tree, *, rules):
    """A sharding for every leaf, from the first rule whose regex matches the last key of the leaf's path, its name.

    A rule is ``(regex, axis names per dimension)``; ``()`` replicates, ``("data",)`` shards the first dimension over
    the data axis (FSDP). Optimizer moments have their weight's name in their path, so one rule shards both. A dimension
    that the axis does not divide stays whole.
    """
    for pattern, axes in rules:
        for axis in axes:
            if axis is not None and axis not in mesh.shape:
                raise errors.ConfigError(
                    f"sharding rule {pattern!r}: the mesh has no axis {axis!r}; {errors.suggest(axis, mesh.shape)}"
                )

    def place(path, leaf):
        keys = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", "")))) for k in path]
        axes = trees.first_match(keys[-1] if keys else "", rules, what="sharding rule") if np.ndim(leaf) else ()
        fits = [
            axis if axis is None or size % mesh.shape[axis] == 0 else None for axis, size in zip(axes, np.shape(leaf))
        ]
        return NamedSharding(mesh, PartitionSpec(*fits))

    return jax.tree_util.tree_map_with_path(place, tree)


def gathered(mesh, tree, *, rules):
    """The leaves without slices along the axis ``data``, for use in a compiled function.

    Without this, XLA may multiply with slices and add up activations, which are larger than the weights.
    """
    if mesh.size == 1 or not any("data" in axes for _, axes in rules):
        return tree

    def whole(leaf, place):
        spec = PartitionSpec(*(None if axis == "data" else axis for axis in place.spec))
        return jax.lax.with_sharding_constraint(leaf, NamedSharding(mesh, spec))

    return jax.tree.map(whole, tree, shardings(mesh, tree, rules=rules))


def put_rows(batch, sharding):
    """Makes global arrays of this process's rows of a batch (numpy)."""
    return {name: jax.make_array_from_process_local_data(sharding, value) for name, value in batch.items()}


def put(tree, sharding):
    """Makes global arrays of a tree that is equal on every process; `sharding` is one for all leaves, or a tree."""

    def place(x, where):
        x = np.asarray(x)
        return jax.make_array_from_callback(x.shape, where, lambda index: x[index])

    if isinstance(sharding, jax.sharding.Sharding):
        return jax.tree.map(lambda x: place(x, sharding), tree)
    return jax.tree.map(place, tree, sharding)
