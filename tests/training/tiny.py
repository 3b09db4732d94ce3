"""A run that takes a second: made-up data, 1+1 layers of width 32. Also for ``--config=tests/training/tiny.py``."""

from configs import common

DATA = "generated:arithmetic"


def get_config(arg=""):
    """No arguments: every change is a --config.KEY=VALUE."""
    common.parse(arg, {})
    config = common.base()
    config.steps = 6
    config.data.train, config.data.fields = f"{DATA},size=200", ("source", "target")
    config.data.validation, config.data.test = f"{DATA},size=8@validation", f"{DATA},size=8@test"
    config.data.tokenizer.vocabulary = 128
    config.data.rows, config.data.row_length, config.data.eval_batch = 16, 32, 8
    config.model = dict(
        name="seq2seq", attention="softmax", width=32, heads=2, hidden=32, encoder_layers=1, decoder_layers=1,
        dropout=0.1, attention_dropout=0.1,
    )  # fmt: skip
    config.task = dict(name="translate", metrics=("exact_match",))
    config.reparam = dict(name="none")
    config.optimizer.learning_rate = 1e-3
    config.optimizer.schedule = dict(name="constant")
    config.log_every, config.eval_every, config.save_every = 1, 4, 2
    config.eval_decode = False
    return config.lock()
