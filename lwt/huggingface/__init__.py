"""Folders of Hugging Face's transformers: which models lwt has too, and how configs, names and weights correspond.

`encoders`, `marian` and `vit` list the architectures; `names` says what an architecture is. `configs` converts
config.json, `layouts` the weights, and `reading` reads the files of a folder. `translator` and `images` make the config
of a run from a Marian model and from a Vision Transformer. `lwt/runs/hub.py` makes a bundle from a folder;
`lwt/export/torch/hf.py` writes one.
"""
