"""From named data sets to batches of arrays, in NumPy alone: nothing here imports jax.

`sources` opens a data set by its name. `splits` and `labels` divide it and number its classes; `cleaner`, `text`,
`tokenizer` and `corpus` turn texts into ids, `images` decodes images, `radar` makes or reads micro-Doppler maps.
`batches` turns examples into batches, and `kinds` puts all of it together for a run. Read `kinds.common` first, then
`batches`.
"""
