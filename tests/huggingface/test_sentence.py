"""The files of sentence-transformers: what they say is read and written, and what lwt does not compute is refused."""

import json

import pytest

from lwt import errors
from lwt.huggingface import sentence
from lwt.models import bert
from tests.huggingface import small


@pytest.mark.parametrize("pool, normalize", [("mean", True), ("first", False)])
def test_what_is_written_is_read(pool, normalize, tmp_path):
    sentence.write(tmp_path, bert.Bert(9, **small.SIZES, pool=pool, normalize=normalize))
    assert sentence.section(tmp_path) == {"pool": pool} | ({"normalize": True} if normalize else {})
    assert sentence.model_folder(tmp_path) == tmp_path and sentence.max_length(tmp_path) == 0


def test_without_the_files_nothing_is_said(tmp_path):
    assert sentence.section(tmp_path) == {} and sentence.model_folder(tmp_path) == tmp_path


def test_the_model_may_lie_below(tmp_path):
    sentence.write(tmp_path, bert.Bert(9, **small.SIZES, pool="mean"))
    listed = json.loads((tmp_path / "modules.json").read_text())
    listed[0]["path"] = "0_Transformer"
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    assert sentence.model_folder(tmp_path) == tmp_path / "0_Transformer"


def test_other_modules_and_pools_are_refused(tmp_path):
    sentence.write(tmp_path, bert.Bert(9, **small.SIZES, pool="mean"))
    path = tmp_path / "1_Pooling/config.json"
    for modes in (
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
    ):
        path.write_text(json.dumps(modes))
        with pytest.raises(errors.CheckpointError, match="1_Pooling/config.json: pooling_mode_.* must be one of"):
            sentence.section(tmp_path)
    listed = [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(errors.CheckpointError, match="modules.json: the module Dense must be Transformer, Pooling"):
        sentence.section(tmp_path)
    (tmp_path / "modules.json").write_text("[3]")
    with pytest.raises(errors.CheckpointError, match="modules.json is damaged"):
        sentence.section(tmp_path)
    (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    with pytest.raises(errors.CheckpointError, match="do_lower_case must be false"):
        sentence.max_length(tmp_path)
