"""Everything is compiled once and kept for all tests of this folder."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(compiled_once):
    pass
