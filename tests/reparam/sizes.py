"""The shapes of whole models, and the number of weights that a method trains on them."""

import jax
import jax.numpy as jnp

from lwt import trees

SEQ2SEQ = [f"encoder/layer_{i}/self_attention" for i in range(4)]
SEQ2SEQ += [f"decoder/layer_{i}/{kind}_attention" for i in range(4) for kind in ("self", "cross")]


def shapes(modules, d):
    float32 = jnp.float32
    base = {"embed/embedding": jax.ShapeDtypeStruct((50048, d), float32)}
    for module in modules:
        for part in ("query", "key", "value", "out"):
            base[f"{module}/{part}/kernel"] = jax.ShapeDtypeStruct((d, d), float32)
            base[f"{module}/{part}/bias"] = jax.ShapeDtypeStruct((d,), float32)
    return base


def trained(reparam, base):
    adapter = jax.eval_shape(reparam.init, jax.random.key(0), base)
    labels = reparam.labels(adapter)
    return trees.count({name: leaf for name, leaf in adapter.items() if labels[name] not in ("state", "constant")})
