"""The other methods of PEFT give the same logits on the same base, and come back."""

import re

import numpy as np
import pytest

from lwt import errors
from lwt.export.torch import peft as border
from lwt.training import new_run
from tests.export.torch import test_peft

pytestmark = pytest.mark.usefixtures("compiled_once")
peft, transformers, theirs, TOLERANCE = test_peft.peft, test_peft.transformers, test_peft.theirs, test_peft.TOLERANCE
reader, translator, torch = test_peft.reader, test_peft.translator, test_peft.torch

METHODS = [
    {"name": "ia3", "feedforward": ".*fc2/kernel"},
    {"name": "hira", "rank": 2},
    {"name": "adalora", "rank": 3, "budget": 2, "alpha": 5.0, "every": 4, "orthogonality": 0.25},
    {"name": "miss", "rank": 5},
    {"name": "lokr", "rank": 1, "alpha": 3.0, "factor": 2},
    {"name": "oft", "block_size": 5, "neumann": 5},
    {"name": "oft", "block_size": 8},
    {"name": "c3a"},
    {"name": "c3a", "block_size": 4},
    {"name": "vera", "rank": 6},
    {"name": "shira", "rank": 2},
    {"name": "unilora", "rank": 2, "length": 30, "bound": 0.3, "centred": False},
]
READ_AS = {"vera": "lora", "unilora": "lora", "shira": "none"}


@pytest.mark.parametrize("section", METHODS, ids=str)
def test_other_methods_go_there_and_back(section, reader, tmp_path):
    base, logits, folder = reader
    run = test_peft.adapted(base, tmp_path / "run", section | {"targets": ".*(query|fc1|fc2)/kernel"})
    assert np.abs(logits(run.weights) - logits(base.weights)).max() > 20 * TOLERANCE
    border.write(run, tmp_path / "adapter")
    model = transformers.BertForSequenceClassification.from_pretrained(folder)
    wanted = theirs(peft.PeftModel.from_pretrained(model, tmp_path / "adapter").eval())
    np.testing.assert_allclose(logits(run.weights), wanted, atol=TOLERANCE)
    again = border.convert(tmp_path / "adapter", base, workdir=tmp_path / "again")
    assert again.config.reparam.name == READ_AS.get(section["name"], section["name"])
    np.testing.assert_allclose(logits(again.weights), wanted, atol=TOLERANCE)
    if section["name"] not in READ_AS:
        for name, leaf in run.stored()[0].items():
            np.testing.assert_array_equal(again.stored()[0][name], leaf, err_msg=name)


def test_tuned_layer_norms_go_there_and_back(reader, tmp_path):
    base, logits, folder = reader
    names = [name for name in base.weights if re.search(r"norm/|head/", name)]
    moved = {name: base.weights[name] * 1.5 + 0.1 for name in names}
    run = new_run.adapt(base, tmp_path / "run", reparam={"name": "none"}, adapter={}, trained=moved)
    border.write(run, tmp_path / "adapter")
    model = transformers.BertForSequenceClassification.from_pretrained(folder)
    wanted = theirs(peft.PeftModel.from_pretrained(model, tmp_path / "adapter").eval())
    np.testing.assert_allclose(logits(run.weights), wanted, atol=TOLERANCE)
    again = border.convert(tmp_path / "adapter", base, workdir=tmp_path / "again")
    assert all(np.array_equal(again.weights[name], w) for name, w in run.weights.items())


def test_methods_on_a_model_with_reordered_channels(translator, tmp_path):
    base, logits, folder = translator
    run = test_peft.adapted(base, tmp_path / "run", {"name": "ia3", "feedforward": ".*(fc1|fc2)/kernel"})
    border.write(run, tmp_path / "adapter")
    model = transformers.MarianMTModel.from_pretrained(folder)
    wanted = theirs(peft.PeftModel.from_pretrained(model, tmp_path / "adapter").eval())
    np.testing.assert_allclose(logits(run.weights), wanted, atol=TOLERANCE)
    again = border.convert(tmp_path / "adapter", base, workdir=tmp_path / "again")
    assert all(np.array_equal(again.weights[name], w) for name, w in run.weights.items())
    for section in ({"name": "miss", "rank": 2}, {"name": "vera"}):
        run = test_peft.adapted(base, tmp_path / section["name"], section)
        with pytest.raises(errors.ConfigError, match=f"{section['name']} mixes channels.*lora, dora, ia3, hira"):
            border.write(run, tmp_path / "refused")


def test_directions_that_peft_pruned_are_zero(reader, tmp_path):
    base, logits, folder = reader
    model = transformers.BertForSequenceClassification.from_pretrained(folder)
    options = {"init_r": 4, "target_r": 2, "total_step": 3, "tfinal": 1, "target_modules": ["query", "value"]}
    model = peft.get_peft_model(model, peft.AdaLoraConfig(**options)).eval()
    for step in (1, 2):
        for parameter in filter(lambda p: p.requires_grad, model.parameters()):
            parameter.data += torch.randn(parameter.shape)
            parameter.grad = torch.randn(parameter.shape)
        model.base_model.update_and_allocate(step)
    wanted = theirs(model)
    model.save_pretrained(tmp_path / "adapter")
    run = border.convert(tmp_path / "adapter", base, workdir=tmp_path / "run")
    np.testing.assert_allclose(logits(run.weights), wanted, atol=TOLERANCE)
    kept = [np.count_nonzero(leaf) for name, leaf in run.stored()[0].items() if name.endswith("values")]
    assert sum(kept) == 2 * len(kept) and run.config.reparam.end == 2
    assert np.abs(wanted - logits(base.weights)).max() > 20 * TOLERANCE
