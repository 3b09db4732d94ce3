"""Opens what an estimator saved."""

import pathlib

from lwt import errors, files
from lwt.estimators import base, classifier, regressor

KINDS = {"Classifier": classifier.Classifier, "Regressor": regressor.Regressor}


def load(folder, **options):
    """The `Classifier` or `Regressor` that was saved in a folder; `options` as in `experiment.load`.

    Raises:
        lwt.errors.ConfigError: see `experiment.load`.
        lwt.errors.CheckpointError: the folder is damaged, or has no such checkpoint.
    """
    path = pathlib.Path(folder, base.FILE)
    try:
        about = files.read_json(path)
        made = KINDS[about["class"]]()
        params = dict(about["params"])
        if isinstance(params.get("class_weight"), list):
            params["class_weight"] = dict(params["class_weight"])
        made.set_params(**params)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}") from error
    return made.restore(folder, **options)
