"""What the console shows when a run starts: what is trained, on which data, for how long, and where."""

from lwt import trees
from lwt.machine import hardware

MADE = ("base/", "adapter/")  # names of the run's own weights; a teacher's are frozen leaves, too


def lines(config, data, *, learned, leaves, validation, epoch):
    """The lines of a header.

    Args:
        config: of the run, with its length in steps.
        data: its data.
        learned, leaves: those that the optimizer moves, and all, by name, ``base/...`` and ``adapter/...``.
        validation: number of records of the validation set.
        epoch: batches of an epoch.
    """
    trained, all_ = (
        trees.count({name: leaf for name, leaf in found.items() if name.startswith(MADE)})
        for found in (learned, leaves)
    )
    share = f", {trained:,} of them trained ({100 * trained / all_:.2g} %)" if trained < all_ else ", all trained"
    method = "" if config.reparam.name == "none" else f" with {config.reparam.name}"
    sizes = " + ".join(str(n) for n in (config.data.row_length, config.data.target_row_length) if n)
    length = f" of up to {sizes} tokens" if config.data.kind != "images" else ""
    epochs = f"{config.steps / epoch:.3g}"
    return (
        f"model   {config.model.name}{method}: {all_:,} parameters{share}",
        f"data    {data.taken()}; {validation:,} records to evaluate on while training",
        f"length  {config.steps:,} steps of {config.data.rows} rows{length}, {epochs} epoch{'s' * (epochs != '1')}",
        f"device  {hardware.describe()}",
    )
