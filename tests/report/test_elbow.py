"""Where more rank stops paying, on curves drawn by hand."""

from lwt.report import elbow

PAPER = {4: 0.002, 8: 0.42, 16: 0.88, 32: 0.95}


def test_the_paper_s_curve_bends_at_16():
    assert elbow.farthest(PAPER) == 16
    assert elbow.enough(PAPER) == 32 and elbow.enough(PAPER, margin=0.08) == 16


def test_a_sharp_corner_is_found_wherever_it_is():
    for corner in (8, 16):
        assert elbow.farthest({rank: min(rank, corner) / corner + 0.001 * rank for rank in PAPER}) == corner


def test_no_bend_no_elbow():
    assert elbow.farthest({rank: rank / 40 for rank in PAPER}) is None  # a straight line
    assert elbow.farthest({rank: rank**2 / 2000 for rank in PAPER}) is None  # bends the other way
    assert elbow.farthest(dict.fromkeys(PAPER, 0.5)) is None
    assert elbow.farthest({4: 0.9, 8: 0.95, 32: 0.8}) is None  # more rank is worse
    assert elbow.farthest({4: 0.1, 8: 0.9}) is None


def test_enough_takes_the_margin_at_its_edge():
    assert elbow.enough({4: 0.90, 8: 0.98, 16: 0.99, 32: 0.985}) == 8
    assert elbow.enough({4: 0.97, 8: 0.98, 16: 0.99}) == 8
    assert elbow.enough({8: 0.5}) == 8
