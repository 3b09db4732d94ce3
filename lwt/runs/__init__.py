"""The files of a run on disk, and the one way to open it.

`experiment` opens a run; `assembly` makes the parts of a run from its config; `bases` finds the run that one started
from, and `hub` imports models of Hugging Face; `run_config`, `checkpoint`, `saved_steps`, `manifest`, `bundle`,
`integer_file` and `eval_files` are the files of a run folder; `evaluation` measures an opened model.
"""
