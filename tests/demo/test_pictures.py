"""Pictures and tables show the figures they are given."""

import numpy as np

from lwt.demo import insight, pictures, session


def test_pictures_of_tokens(classifier):
    found = session.Session(classifier.workdir).look(("the cold year was bolder",))
    attention = next(iter(found.attentions.values()))
    drawn = pictures.attention(attention)
    assert [axes.get_title("left") for axes in drawn.axes] == ["head 0", "head 1"]
    (axes,) = pictures.attention(attention, 1).axes
    np.testing.assert_array_equal(axes.images[0].get_array(), attention.weights[1])
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["[CLS]", "the"]


def test_a_token_of_dollar_signs_is_no_formula():
    tokens = ("pay", "$$", "$\\frac$", "now")
    drawn = pictures.attention(insight.Attention(np.full((1, 4, 4), 0.25), tokens, tokens))
    drawn.canvas.draw()
    assert [label.get_text() for label in drawn.axes[0].get_xticklabels()] == [*tokens]


def test_the_table_escapes_what_it_shows():
    memory = insight.Memory(3, 1.5, ("a <b>", "&", ""), [("<i>", 2.5), ("", 1.1)])
    table = pictures.memories([memory], "output embedding")
    assert "<i>" not in table and "<b>" not in table
    assert "a &lt;b&gt; <mark>&amp;</mark>" in table and "&lt;i&gt; <small>2.5</small>" in table and "␣" in table
    assert "No key" in pictures.memories([], "output embedding")
