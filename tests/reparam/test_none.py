"""Without a reparametrization the weights are those that are stored."""

from lwt.reparam import none


def test_the_weights_are_the_base_and_nothing_is_added(base):
    reparam = none.Unchanged()
    assert reparam.init(None, base) == {} == reparam.labels({})
    weights = reparam.expand(base, {}, 0)
    assert weights is not base and weights.keys() == base.keys()
    assert all(weights[name] is w for name, w in base.items())
