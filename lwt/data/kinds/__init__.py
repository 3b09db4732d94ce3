"""The kinds of data that ``config.data.kind`` names: pairs, labelled, compared, masked and images.

Read `common` first, which says what a run calls, then `text_data` (the texts) and `supervised` (the labelled kinds).
"""
