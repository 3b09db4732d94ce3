"""Checkpoints on disk: Orbax writes the arrays in the background, a manifest holds their checksums.

    FOLDER/500/state/...       the arrays, by flat name
    FOLDER/500/data/metadata   the position in the data, JSON
    FOLDER/500/MANIFEST.json   evaluation figures, shape and type of every array, size and sha256 of every file

A step is written under a temporary name, then its manifest is written, then the folder is renamed: a folder with a
number for its name and a manifest inside is complete. docs/design/checkpoints.md says why Orbax alone is not enough.
"""

import contextlib
import errno
import functools
import logging
import os
import pathlib
import shutil

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

from lwt import errors
from lwt.runs import manifest, saved_steps

FOLDER = "checkpoints"  # of a workdir
FULL = [os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]  # as Orbax spells them
TIMEOUT = 600  # seconds that a process waits for the others at the end of a save

# Orbax logs an error of its threads with two tracebacks and raises it as well.
logging.getLogger("absl").addFilter(lambda record: f"{os.sep}orbax{os.sep}" not in record.pathname)


def of_run(workdir, config=None, **options):
    """The `Checkpoints` of the run in `workdir`; a `config` says which figure selects the best."""
    if config is not None:
        options = {"select": config.select, "mode": config.select_mode, **options}
    return Checkpoints(pathlib.Path(workdir, FOLDER), **options)


def save_initial(workdir, config, trainable, *, identity):
    """Writes the checkpoint of step 0 of an untrained run that starts with the leaves `trainable`."""
    with of_run(workdir, config) as checkpoints:
        checkpoints.save(0, {"trainable": trainable}, data_state={"identity": identity}, wait=True)


class Checkpoints:
    """The checkpoints of one run: the last few, and the best.

    With several processes each makes every call, on a folder that all of them see.

    Args:
        folder: made at the first save.
        keep_last: how many of the newest steps stay on disk; the best one stays as well.
        select: the evaluation figure that decides which step is best.
        mode: ``"min"`` or ``"max"``: whether lower or higher figures are better.
    """

    def __init__(self, folder, *, keep_last=2, select="loss", mode="min"):
        if keep_last < 1:
            raise errors.ConfigError(f"keep_last={keep_last} would keep no checkpoint; it must be at least 1")
        if mode not in ("min", "max"):
            raise errors.ConfigError(f"select_mode={mode!r}: it must be 'min' or 'max'")
        self.folder = pathlib.Path(folder).absolute()
        self._keep_last, self._select = keep_last, select
        self._saved = saved_steps.SavedSteps(self.folder, select, mode=mode)
        self._saving = None  # (step, what its manifest will say) while a save is under way
        self._known = set()  # steps that this object wrote, or restored and so verified

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def save(self, step, state, *, data_state, metrics=None, wait=False):
        """Starts to write `state`; returns as soon as the caller may change it or donate its buffers.

        A step that this object already wrote or restored is not written again. Steps later than `step` were left by a
        run that has since resumed from an earlier one; they are removed.

        Args:
            step: the number of optimizer steps taken.
            state: a tree of arrays.
            data_state: the position in the data, as JSON.
            metrics: evaluation figures at this step; None: it was not evaluated and cannot be the best.
            wait: block until the checkpoint is on disk.

        Raises:
            lwt.errors.ConfigError: `metrics` lacks the figure to select by.
            lwt.errors.CheckpointError: this save, or the one before it, failed.
        """
        if metrics is not None and self._select not in metrics:
            raise errors.ConfigError(
                f"select={self._select!r} is not an evaluation figure; {errors.suggest(self._select, metrics)}"
            )
        self.wait()
        if step not in self._known:
            leaves, args = named(state), _orbax().args
            self._saving = (step, manifest.describe(step, leaves, metrics=metrics))
            items = args.Composite(
                # Orbax refuses arrays without elements; the manifest knows their shapes
                state=args.StandardSave({name: leaf for name, leaf in leaves.items() if leaf.size}),
                data=args.JsonSave(data_state),
            )
            with self._failures_of_saving():
                self.folder.mkdir(parents=True, exist_ok=True)
                self._checkpointer.save(self._saved.path(step), args=items, force=True)
        if wait:
            self.wait()

    def add_metrics(self, step, metrics):
        """Adds the evaluation figures of a saved step that was not evaluated; its arrays stay as they are."""
        self.wait()
        if jax.process_index() == 0:
            manifest.add_metrics(self._saved.path(step), metrics)
        if jax.process_count() > 1:
            multihost_utils.sync_global_devices(f"lwt metrics {step}")

    def wait(self):
        """Blocks until the pending save is on disk and obsolete checkpoints are deleted.

        Raises:
            lwt.errors.CheckpointError: the save failed; earlier checkpoints are untouched.
        """
        if self._saving:
            step, _ = self._saving
            with self._failures_of_saving():
                self._checkpointer.wait_until_finished()
            self._saving = None
            self._known.add(step)
            if jax.process_index() == 0:
                self._prune(step)
            if jax.process_count() > 1:
                multihost_utils.sync_global_devices(f"lwt checkpoint {step}")

    def close(self):
        """Waits for the pending save, and ends the background threads."""
        try:
            self.wait()
        finally:
            if "_checkpointer" in vars(self):
                vars(self).pop("_checkpointer").close()

    def steps(self):
        """The steps whose save finished, ascending; their checksums are compared only when they are restored."""
        return self._saved.complete()

    def last_step(self):
        """The newest step whose save finished, or None."""
        return max(self.steps(), default=None)

    def best_step(self):
        """The step with the best selected figure (the earliest of equals), or None if no step has one."""
        return next(iter(self._saved.best_first()), None)

    def metrics(self, step):
        """The evaluation figures saved with `step`; empty if there were none, None for one that was not finite."""
        return manifest.read(self._saved.path(step))["metrics"]

    def restore(self, step="last", like=None, *, check=None):
        """Reads a checkpoint, after comparing the checksum of every file.

        Args:
            step: ``"last"``, ``"best"`` (the last, if no step was evaluated), or a number. If the last or best step is
                damaged, the next one is restored, with a warning in the log.
            like: the tree to restore, of arrays or `jax.ShapeDtypeStruct` with shardings; None for a flat dict of
                everything saved, on one device.
            check: called with the data state before the arrays are read; it raises if they belong to another run.

        Returns:
            ``(state, data_state, step)``.

        Raises:
            lwt.errors.CheckpointError: there is no such checkpoint, or it is damaged or of another model.
        """
        self.wait()
        step, contents = self._saved.find(step)
        path, args = self._saved.path(step), _orbax().args
        with _as_checkpoint_error(f"{path}: not restored"):
            data_state = self._checkpointer.restore(path, args=args.Composite(data=args.JsonRestore())).data
        if check is not None:
            check(data_state)
        wanted = manifest.shapes(contents) if like is None else named(like)
        manifest.compare(path, contents, wanted=wanted)
        device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        targets = {
            name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=getattr(leaf, "sharding", None) or device)
            for name, leaf in wanted.items()
        }
        items = args.StandardRestore({name: leaf for name, leaf in targets.items() if leaf.size})
        with _as_checkpoint_error(f"{path}: not restored"):
            read = self._checkpointer.restore(path, args=args.Composite(state=items)).state
        flat = {
            name: read[name] if leaf.size else jax.device_put(jnp.zeros(leaf.shape, leaf.dtype), leaf.sharding)
            for name, leaf in targets.items()
        }
        self._known.add(step)
        if like is not None:
            flat = jax.tree.unflatten(jax.tree.structure(like), [flat[name] for name in wanted])
        return flat, data_state, step

    @functools.cached_property
    def _checkpointer(self):
        ocp = _orbax()
        options = ocp.options.AsyncOptions(timeout_secs=TIMEOUT, post_finalization_callback=self._seal)
        return ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler(), async_options=options)

    def _seal(self):
        """Writes the manifest: Orbax calls this on process 0, in its thread, before it renames the written folder."""
        step, contents = self._saving
        temporary = [path for path in self.folder.glob(f"{step}.*") if _is_temporary(path)]
        manifest.write(temporary[0] if temporary else self._saved.path(step), contents)

    @contextlib.contextmanager
    def _failures_of_saving(self):
        step, _ = self._saving
        try:
            with _as_checkpoint_error(f"{self._saved.path(step)}: not written"):
                yield
        except errors.CheckpointError as error:
            self._saving = None
            for path in self.folder.glob(f"{step}.*"):
                if _is_temporary(path):  # it may be what fills the disk
                    shutil.rmtree(path, ignore_errors=True)
            raise errors.CheckpointError(f"{error}; the same command resumes the run") from error

    def _prune(self, step):
        """Removes leftovers of broken saves, and steps neither among the last few up to `step` nor the best."""
        readable = sorted(self._saved.manifests(until=step))
        kept = {*readable[-self._keep_last :], *self._saved.best_first(until=step)[:1]}
        for path in self.folder.iterdir():
            if _is_temporary(path) or (path.name.isdecimal() and int(path.name) not in kept):
                (path / manifest.NAME).unlink(missing_ok=True)  # first, so that half a folder never counts as complete
                shutil.rmtree(path, ignore_errors=True)


def check_identity(saved, *, identity, where):
    """Raises CheckpointError unless the fingerprints `identity` are those in a checkpoint's data state `saved`."""
    for name, value in identity.items():
        before = saved.get("identity", {}).get(name)
        if before is None and name == "set of labels":  # older checkpoints do not record it
            continue
        if before != value:
            raise errors.CheckpointError(
                f"{where} was written with another {name} (fingerprint {before or 'none':.12}) than the one found "
                f"({value or 'none':.12}); put back the {name} that it was trained with, or use another --workdir"
            )


def named(tree):
    """Any tree of arrays as a flat dict ``{"params/base/embed/embedding": leaf}``, in the order of its leaves."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    flat = {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
    assert len(flat) == len(leaves), "two leaves share a name"
    return flat


@contextlib.contextmanager
def _as_checkpoint_error(what):
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        full = next((cause for cause in FULL if cause in str(error)), None)
        raise errors.CheckpointError(f"{what}: {full or reason}") from error


@functools.cache
def _orbax():
    """Orbax, imported for the first checkpoint: many programs use none, and it takes 0.14 s and 43 MB."""
    import orbax.checkpoint

    return orbax.checkpoint


def _is_temporary(path):
    return ".orbax-checkpoint-tmp" in path.name
