"""The arrays in C hold the integers of the quantized file."""

import jax
import numpy as np

from lwt.export import quantize
from lwt.export.c import weights
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
