"""A config.json that lwt cannot hold is refused by the name of the key; its labels and task become lwt's."""

import pytest

from lwt import errors
from lwt.huggingface import configs
from lwt.models import bert, embbert
from tests.huggingface import small


def config_of(kind, **change):
    model = bert.Bert(40, **small.KINDS[kind], head="classify", outputs=3)
    return configs.of_model("bert", model, task="classify") | change


@pytest.mark.parametrize("kind", small.KINDS)
def test_a_config_comes_back(kind):
    section = configs.to_section(config_of(kind), where="config.json")
    assert {key: section[key] for key in small.KINDS[kind]} == small.KINDS[kind]
    assert configs.of_kind(config_of(kind), where="").kind == kind and configs.classifies(config_of(kind))


@pytest.mark.parametrize(
    "kind, change, words",
    [
        ("bert", {"model_type": "mpnet"}, "model_type='mpnet' must be one of bert, distilbert, roberta, xlm-roberta"),
        (
            "bert",
            {"position_embedding_type": "relative_key"},
            "position_embedding_type='relative_key' must be 'absolute'",
        ),
        ("bert", {"is_decoder": True}, "is_decoder=True must be False"),
        ("bert", {"pruned_heads": {"0": [1]}}, "pruned_heads={'0': .* must be {}"),
        ("bert", {"hidden_act": "mish"}, "hidden_act='mish'"),
        ("albert", {"num_hidden_groups": 2}, "num_hidden_groups=2 must be 1"),
        ("albert", {"inner_group_num": 2}, "inner_group_num=2 must be 1"),
        ("roberta", {"pad_token_id": 0}, "pad_token_id=0 must be 1"),
        ("roberta", {"max_position_embeddings": 2}, "max_position_embeddings=2 must be more than 2"),
        ("electra", {"embedding_size": 0}, "embedding_size=0 must be a whole number of at least 1"),
    ],
)
def test_what_lwt_cannot_hold_is_named(kind, change, words):
    with pytest.raises(errors.CheckpointError, match=f"config.json: {words}"):
        configs.to_section(config_of(kind, **change), where="config.json")


def test_keys_that_old_files_omit():
    old = {key: value for key, value in config_of("bert").items() if key not in ("layer_norm_eps", "hidden_act")}
    section = configs.to_section(old, where="config.json")
    assert section["norm_epsilon"] == 1e-12 and section["activation"] == "gelu"
    del old["hidden_size"]
    with pytest.raises(errors.CheckpointError, match="has no key hidden_size"):
        configs.to_section(old, where="config.json")


def test_labels_and_tasks():
    named = {"id2label": {"1": "yes", "0": "no"}}
    assert configs.labels(named, rows=2, where="") == ["no", "yes"]
    assert configs.labels({}, rows=2, where="") == ["LABEL_0", "LABEL_1"]
    for wrong in ({"0": "no"}, {"0": "no", "1": "no"}, {"0": "no", "1": 3}, ["no", "yes"]):
        with pytest.raises(errors.CheckpointError, match="c: id2label=.* must name each of the 2 classes once"):
            configs.labels({"id2label": wrong}, rows=2, where="c")
    assert configs.task(named, where="") == "classify" and configs.task({"id2label": {"0": "x"}}, where="") == "regress"
    with pytest.raises(errors.CheckpointError, match="problem_type='ranking' must be one of"):
        configs.task({"problem_type": "ranking"}, where="config.json")


@pytest.mark.parametrize(
    "model, words",
    [
        (bert.Bert(9, **small.SIZES | dict(norm="rms")), "model.norm='rms' must be 'layer' for 'bert'"),
        (bert.Bert(9, **small.SIZES, pool="mean", head="classify"), "model.pool='mean' must be 'first'"),
        (bert.Bert(9, **small.SIZES | dict(pooler=False), head="classify"), "model.pooler=False must be True"),
        (bert.Bert(9, **small.SIZES, head="classify", ngram_weights=8), "model.ngram_weights=8 must be 0"),
        (bert.Bert(9, **small.SIZES | dict(segments=0)), "model.segments=0 must be at least 1 for 'bert'"),
    ],
)
def test_models_that_transformers_does_not_have(model, words):
    with pytest.raises(errors.ConfigError, match=words):
        configs.of_model("bert", model)
    with pytest.raises(errors.ConfigError, match="model.name='embbert' is not a model of Hugging Face"):
        configs.of_model("embbert", embbert.Embbert(9))


def test_rows_of_segments_that_transformers_reads_otherwise_are_told(caplog):
    for segments in (2, 3):
        written = configs.of_model("bert", bert.Bert(9, **small.SIZES | dict(segments=segments)))
        assert configs.to_section(written, where="config.json")["segments"] == segments
    assert caplog.text.count("type_vocab_size=3: lwt reads row 1") == 1 and "=2" not in caplog.text
