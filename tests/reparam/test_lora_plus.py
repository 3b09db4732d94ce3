import jax
import pytest

from lwt import errors
from lwt.reparam import dora, lora, lora_plus


def test_factors(base):
    reparam = dora.DoRA(rank=2, start="pissa", targets=".*(layer_0/.*query/kernel|embedding)")
    labels = reparam.labels(reparam.init(jax.random.key(0), base))
    factors = lora_plus.lora_plus_labels(labels, ratio=16.0, embedding_rate=0.01)
    query, table = "encoder/layer_0/self_attention/query/kernel", "embed/embedding"
    expected = {"a": 1.0, "b": 16.0, "magnitude": 16.0, "a0": 0.0, "b0": 0.0}
    assert {leaf: factors[f"{query}/{leaf}"] for leaf in expected} == expected
    expected = {"a": 0.16, "b": 0.01, "magnitude": 16.0, "a0": 0.0, "b0": 0.0}  # a is the one that starts at zero
    assert {leaf: factors[f"{table}/{leaf}"] for leaf in expected} == expected
    assert len(factors) == 10


def test_ratio_one_is_plain_lora(base):
    reparam = lora.LoRA(rank=2)
    labels = reparam.labels(reparam.init(jax.random.key(0), base))
    assert set(lora_plus.lora_plus_labels(labels, ratio=1.0).values()) == {1.0}


def test_wrong_numbers_and_labels():
    with pytest.raises(errors.ConfigError, match="ratio is 0"):
        lora_plus.lora_plus_labels({}, ratio=0)
    with pytest.raises(errors.ConfigError, match="embedding_rate is -1"):
        lora_plus.lora_plus_labels({}, embedding_rate=-1)
    with pytest.raises(errors.ConfigError, match=r"w/c \('c'\)"):
        lora_plus.lora_plus_labels({"w/c": "c"})
