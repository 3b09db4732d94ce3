"""The kinds of data that ``config.data.kind`` names: pairs, labelled, masked and images, from source to batch.

Read `common` first, which says what a run calls, then `text_data` (the texts) and `supervised` (the labelled kinds).
"""
