"""A method that says what one target becomes is a method for all of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from lwt.reparam.parts import each

KEY = "encoder/layer_0/cross_attention/key/kernel"


@dataclasses.dataclass(frozen=True)
class Scaled(each.Each):
    """Every output times its own factor."""

    targets: str | tuple[str, ...] = (KEY,)

    def start(self, key, name, *, shape):
        assert name == KEY
        return {"scale": jax.random.normal(key, shape[1:])}

    def weight(self, name, w, *, leaves):
        return w * leaves["scale"][None]


def test_one_target(base):
    reparam = Scaled()
    adapter = reparam.init(jax.random.key(0), base)
    assert reparam.labels(adapter) == {f"{KEY}/scale": "vector"} and adapter[f"{KEY}/scale"].shape == (20,)
    weights = reparam.expand(base, {f"{KEY}/scale": jnp.arange(20.0)}, 0)
    np.testing.assert_array_equal(weights[KEY], base[KEY] * np.arange(20.0))
    assert all(weights[name] is base[name] for name in base if name != KEY)
