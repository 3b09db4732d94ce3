"""The arrays in C hold the integers of the quantized file."""

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.export import quantize
from lwt.export.c import weights
from lwt.layers import linear, quantized_weight
from lwt.runs import integer_file


def test_the_integers_equal_those_of_the_quantized_file(run, tmp_path):
    quantize.export(run, tmp_path / "int8.safetensors")
    stored, found = integer_file.load(tmp_path / "int8.safetensors"), weights.of(run)[0]
    assert stored.keys() == found.keys()
    for name, weight in found.items():
        jax.tree.map(np.testing.assert_array_equal, weight, stored[name])
    source = weights.Source(found)
    source.linear("head/classifier")
    integers = source.text.split("w_head_classifier[")[1].split("{\n")[1].split("}")[0].replace("\n", "")
    kernel = np.asarray(stored["head/classifier/kernel"].values).T.reshape(-1)
    assert [int(x) for x in integers.split(",") if x] == kernel.tolist()


def test_factors_that_save_nothing_are_multiplied_out():
    generator = np.random.default_rng(0)

    def factors(rank, inputs=40, outputs=24):
        parts = (generator.normal(size=shape) for shape in ((inputs, rank), (rank, outputs)))
        return linear.Factors(*(quantized_weight.quantize(part, format="int4", block=16) for part in parts))

    thin, thick = factors(3), factors(16)
    found = {"block_0/thin/kernel": weights.smaller(thin), "block_0/thick/kernel": weights.smaller(thick)}
    assert found["block_0/thin/kernel"] is thin
    dense = found["block_0/thick/kernel"].dense()
    np.testing.assert_allclose(dense, thick.dense(), atol=float(abs(thick.dense()).max()) / 7)
    source = weights.Source(found)
    assert source.rank == 16 and source.about_factors() == {
        "factors": {"kernels": 1, "bytes": 3 * (24 + 2 * 3) + 24 * (8 + 2), "product_bytes": 24 * (24 + 2 * 3)}
    }
    assert source.linear("block_0/thick").endswith("40, 24, 16, 4, 0, 0}")
    assert source.linear("block_0/thin").endswith("3, 24, 3, 4, 0, &w_block_0_thin_factor}")
    assert (
        "w_block_0_thin_factor = {w_block_0_thin_first, w_block_0_thin_first_scales, 0, 40, 3, 16, 4, 0, 0}"
        in source.text
    )
    with pytest.raises(errors.ConfigError, match="has of quantized kernels only"):
        weights.Source({"embed/token": thin}).table("embed/token")
