"""C literals hold the same text and the same numbers."""

import numpy as np

from lwt.export.c import literals


def test_literals():
    assert literals.string('a"b\\?é\n') == r'"a\042b\134\077\303\251\012"'
    assert float.fromhex(literals.number(0.1)[:-1]) == float(np.float32(0.1))
    assert literals.array("x", np.array([1, -0.5], np.float16), part="scales") == (
        "LWT_IN(scales) const uint16_t x[2] = {\n15360,47104,\n};\n"
    )
