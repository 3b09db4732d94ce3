"""The larger teacher of the EmbBERT-Q study."""

import numpy as np

from lwt.training import teaching
from studies.embbert import labelled


def test_seeds_share_the_outputs_of_their_teacher(tmp_path):
    """A table that a run has already stays."""
    for seed, value in (("0", 1.0), ("2", 2.0)):
        teaching.keep(tmp_path / seed / "teacher_a.npy", np.full(3, value))
    labelled.share_outputs(tmp_path / "1", [tmp_path / "0", tmp_path / "none"])
    labelled.share_outputs(tmp_path / "2", [tmp_path / "0"])
    found = [teaching.kept(tmp_path / seed / "teacher_a.npy", 3) for seed in "12"]
    assert [table.tolist() for table in found] == [[1.0] * 3, [2.0] * 3]
