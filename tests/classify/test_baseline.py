"""The linear baseline of a table's report."""

import numpy as np
import pytest

from lwt.classify import baseline


@pytest.mark.parametrize("count", [60, baseline.MANY + 200])
@pytest.mark.parametrize("kind", ["surnames", "emoji", "words"])
def test_texts_without_common_words_have_characters_as_terms(count, kind):
    generator = np.random.default_rng(0)
    labels = np.arange(count) % 2
    if kind == "surnames":
        texts = [f"{''.join(generator.choice([*'bdgklmnr'], 6))}{'ski' if label else 'son'}" for label in labels]
    else:
        texts = [generator.choice(("😀", "😡"), 3)[0] if kind == "emoji" else "a good day" for _ in labels]
        texts = [f"{text} {'👍' if kind == 'emoji' else 'yes'}" if y else text for text, y in zip(texts, labels)]
    found = baseline.fit((texts, labels), (texts[:40], labels[:40]), classes=2)
    few = kind == "surnames" and count < baseline.MANY  # then a term may be in one text alone
    assert ("characters" in found.about) == (kind != "words" and not few)
    assert (found.predict_proba(texts).argmax(1) == labels).mean() > 0.9
