"""What a compiled program sends, and the page made of it."""

import pytest

from lwt import errors
from studies.inspection import scaling

PROGRAM = """
  %a = (f32[], bf16[8,2]{1,0}) all-reduce(%x, %y), channel_id=1, metadata={op_name="jit(update)/add"}
  %b = s32[4,16]{1,0} all-gather(%z), channel_id=2, dimensions={0}
  %c = f32[2]{0} reduce-scatter(%z), channel_id=3
  %d = f32[8]{0} fusion(%c), kind=kLoop
"""


def test_bytes_of_shapes():
    assert scaling.nbytes("(f32[8,2]{1,0}, pred[])") == 65
    assert [scaling.nbytes(shape) for shape in ("f32[]", "bf16[3]{0}", "u8[2,2]", "s64[0]")] == [4, 6, 4, 0]


def test_bytes_that_a_ring_sends():
    count, sent = scaling.sent(PROGRAM, 4)
    assert count == 3
    assert sent == 2 * (3 / 4) * (4 + 32) + (3 / 4) * 256 + 3 * 8


def test_a_collective_in_a_loop_is_an_error():
    looped = PROGRAM.replace("jit(update)/add", "jit(update)/while/body/add")
    with pytest.raises(errors.DataError, match="collective in a loop: %a"):
        scaling.sent(looped, 4)


def test_the_rows_at_which_sending_takes_as_long_as_computing():
    seconds = 1e-3
    row = {"devices": 8, "placement": "copies", "rows": 32, "state_bytes": 1e6, "array_bytes": 2e6, "collectives": 3}
    row["sent_bytes"] = seconds / 2 * scaling.LINK
    line = scaling.table([row], scaling.FLOPS * seconds).splitlines()[-1]
    assert [cell.strip() for cell in line.strip("|").split("|")][-3:] == ["1.00", "0.50", "16"]
