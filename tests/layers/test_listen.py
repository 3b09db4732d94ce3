"""What modules read and return, recorded or replaced, without a change to the model."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from lwt import trees
from lwt.layers import linear, listen
from lwt.models import bert
from lwt.runs import assembly


class Model(nn.Module):
    """Two linear layers, the second of which is used twice."""

    def setup(self):
        self.first, self.second = linear.Linear(3), linear.Linear(3)

    def __call__(self, batch, *, train=False):
        del train
        return self.second(self.second(self.first(batch["x"])))


X = jnp.arange(12.0).reshape(2, 2, 3)
BATCH = {"x": X, "segments": jnp.array([[1, 1], [1, 0]])}


def made():
    model = Model()
    return model, model.init(jax.random.key(0), BATCH)


def everything(name):
    del name
    return True


def test_every_call_is_recorded():
    model, variables = made()
    with listen.record(everything, lambda args, output: (args[0], output), classes=linear.Linear) as calls:
        y = model.apply(variables, BATCH)
    (first,), (before, after) = calls["first"], calls["second"]
    assert set(calls) == {"first", "second"} and first[0] is X
    assert before[0] is first[1] and after[0] is before[1] and after[1] is y


def test_only_the_wanted_modules_and_methods_are_recorded():
    model, variables = made()
    with listen.record(lambda name: name == "first", lambda args, _: args[0]) as calls:
        model.apply(variables, BATCH)
    assert list(calls) == ["first"]
    with listen.record(everything, lambda args, _: args, method="setup") as calls:
        model.apply(variables, BATCH)
    assert calls == {"": [()]}


def test_an_answer_replaces_a_call_and_leaves_nothing_behind():
    model, variables = made()
    with listen.intercept(lambda name, module, call, args, kwargs: args[0] + 1, classes=linear.Linear):
        np.testing.assert_array_equal(model.apply(variables, BATCH), X + 3)
    assert not np.array_equal(model.apply(variables, BATCH), X + 3)


def test_summaries_see_inputs_and_padding():
    model, variables = made()
    weights = trees.flatten(variables["params"])

    def total(x, real):
        return jnp.where(real[..., None], x, 0).sum(), real.sum()

    names = ["first/kernel", "second/kernel", "second/bias"]
    batches = [BATCH, BATCH | {"x": 2 * X}]
    once, twice = listen.summaries(model, weights, batches=batches, names=names, summary=total)
    assert once[0] is BATCH and set(once[1]) == {"first/kernel", "second/kernel"}
    sums = [float(summaries["first/kernel"][0]) for _, summaries in (once, twice)]
    assert sums == [X.reshape(4, 3)[:3].sum(), 2 * X.reshape(4, 3)[:3].sum()] and once[1]["first/kernel"][1] == 3
    (second,) = [listen.inputs(model, weights, batch=BATCH, names=names)["second/kernel"]]
    inner = linear.linear(X, weights["first/kernel"], bias=weights["first/bias"])
    np.testing.assert_allclose(second, linear.linear(inner, weights["second/kernel"], bias=weights["second/bias"]))


def test_real_positions():
    pairs = {"source_segments": jnp.array([[1, 0]]), "target_segments": jnp.array([[1, 1, 0]])}
    reads_source = ("encoder/layer_0/mlp/fc1/kernel", "decoder/layer_0/cross_attention/key/kernel")
    reads_source += ("decoder/layer_0/cross_attention/value/rank/kernel",)  # of K/V projection
    for name in reads_source:
        assert listen.real(name, pairs, x=jnp.ones((1, 2, 4))).tolist() == [[True, False]]
    for name in ("decoder/layer_0/cross_attention/query/kernel", "decoder/layer_0/mlp/fc1/kernel"):
        assert listen.real(name, pairs, x=jnp.ones((1, 3, 4))).tolist() == [[True, True, False]]
    images = {"image": jnp.ones((2, 4, 4, 1)), "example": jnp.array([7, -1])}
    assert listen.real("x/kernel", images, x=jnp.ones((2, 3, 4))).tolist() == [[True] * 3, [False] * 3]
    assert listen.real("x/kernel", images, x=jnp.ones((8, 4))).tolist() == [True] * 8


def test_all_calls_of_a_shared_layer_are_summed_up():
    model = bert.Bert(vocabulary=9, max_length=4, width=8, heads=2, hidden=8, layers=3, shared=True)
    weights = assembly.init_weights(model, jax.random.key(0))
    batch = {"ids": jnp.array([[2, 5, 6, 0]]), "segments": jnp.array([[1, 1, 1, 0]])}
    (name,) = [name for name in weights if name.endswith("fc2/kernel")]
    seen = []
    with listen.record(lambda one: f"{one}/kernel" == name, lambda args, _: args[0], classes=linear.Linear) as calls:
        model.apply({"params": trees.unflatten(weights)}, batch, train=False)
        seen = [*calls.values()][0]
    assert len(seen) == 3

    def largest(x, real):
        return jnp.where(real[..., None], abs(x), 0).max()

    ((_, found),) = listen.summaries(model, weights, batches=[batch], names=[name], summary=largest)
    np.testing.assert_allclose(found[name], max(float(abs(x[0, :3]).max()) for x in seen), rtol=1e-5)
