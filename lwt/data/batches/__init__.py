"""From examples to batches: tokenize the texts, pad or pack the rows, shuffle the epochs, read ahead.

Read `examples` first: it says what every batcher expects. `padded` makes the evaluation batches, `bucketed` and
`packed` the training batches. `tokenized` holds the ids of many texts; `sharding` gives each process its rows.
"""
