"""Everything that lies on disk about a run, and the one way to open it.

`experiment` is the door; `assembly` makes the parts of a run from its config; `run_config`, `checkpoint`, `manifest`,
`bundle`, `integer_file` and `lock` are the files of a run folder; `evaluation` measures an opened model.
"""
