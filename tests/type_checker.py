"""The type checker that `tests/conftest.py` hooks into lwt: beartype, with ints allowed as floats."""

import beartype

check = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))
