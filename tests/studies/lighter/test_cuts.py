"""The compared methods: strengths and their names."""

from studies.lighter import cuts, recipe


def test_strengths_and_their_names():
    for name, method in cuts.METHODS.items():
        assert method.cut in recipe.CUTS or not method.cut, name
        assert len({*method.labels()}) == len(method.strengths) and len({*method.rates}) == 3, name
    assert cuts.METHODS["pattern"].labels() == ["2:4", "1:4"]
    assert cuts.METHODS["weights"].labels()[:2] == ["0.5", "0.7"]
