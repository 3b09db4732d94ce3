"""Small initial tables of the text encoders (`tables=small`, in pre-training and in fine-tuning)."""

import itertools

import pytest

from configs import embbert_pretrain
from lwt import errors
from tests.configs import smoke


@pytest.mark.parametrize("model", embbert_pretrain.MODELS)
def test_small_initial_tables(model):
    """They are all that differs, whatever the recipe; a base has weights of its own."""
    shrunk = embbert_pretrain.TUNED.get(model, {"model": {}})["model"].get("position_std", 1.0)
    for name, recipe in itertools.product(("pretrain", "finetune"), ("paper", "tuned")):
        small, own = (
            smoke.encoder(f"embbert_{name}.py:model={model},recipe={recipe}{more}") for more in (",tables=small", "")
        )
        ratio = shrunk if (name, recipe) == ("pretrain", "tuned") else 1.0
        assert (small.model.embedding_std, small.model.position_std) == (0.02, 0.02 * ratio)
        kept = {key: value for key, value in small.model.items() if not key.endswith("_std")}
        assert kept == {key: value for key, value in own.model.items() if not key.endswith("_std")}


@pytest.mark.parametrize("name", ["pretrain", "finetune"])
@pytest.mark.parametrize("wrong", ["tables=large", "tables=small,base=runs/x"])
def test_initial_tables_that_do_not_exist(name, wrong):
    with pytest.raises(errors.ConfigError, match="tables='(large|small)': must be small without a base, or empty"):
        smoke.encoder(f"embbert_{name}.py:{wrong}")
