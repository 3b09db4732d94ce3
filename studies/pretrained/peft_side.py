"""The runs of the study in PEFT with transformers, on lwt's batches."""

import itertools
import time

import numpy as np

from lwt import errors
from lwt.machine import hardware
from lwt.runs import assembly, hub
from lwt.training import build, optim

LINEAR = ["query", "key", "value", "dense"]  # every linear layer of BERT's encoder


def train(config, folder, *, speed_of):
    """Trains the run of `config` with PEFT; returns its record, without what names the run.

    Args:
        config: of the same run in lwt; it starts from ``hf:FOLDER``.
        folder: keeps what is made of the data.
        speed_of: steps a second from ``[(last step, number of steps, seconds)]``, without evaluations.

    Raises:
        lwt.errors.ConfigError: PyTorch, transformers or PEFT is missing.
    """
    torch = _import()
    torch.manual_seed(config.seed)
    torch.set_num_threads(hardware.cores())
    data, task = assembly.make_data(config, folder), assembly.make_task(config)
    batches = data.training()
    config = build.in_steps(config, batches)
    rate = optim.schedule(config.optimizer.schedule, config.optimizer.learning_rate, steps=config.steps)
    rates = np.asarray([rate(step) for step in range(config.steps)])
    model = classifier(hub.find(config.init_from), outputs=data.outputs, config=config)
    optimizer = _optimizer(model, config.optimizer)
    begin, best, spans = time.perf_counter(), None, []
    start, clock = 0, time.perf_counter()
    model.train()
    for step, batch in enumerate(itertools.islice(batches, config.steps), 1):
        for group in optimizer.param_groups:
            group["lr"] = rates[step - 1]
        optimizer.zero_grad(set_to_none=True)
        label = torch.from_numpy(batch["label"]).long()
        torch.nn.functional.cross_entropy(model(batch), label).backward()
        if config.optimizer.clip_norm:
            torch.nn.utils.clip_grad_norm_([p for _, p in _trained(model)], config.optimizer.clip_norm)
        optimizer.step()
        if step % config.log_every == 0 or step % config.eval_every == 0 or step == config.steps:
            now = time.perf_counter()
            spans.append((step, step - start, now - clock))
            if step % config.eval_every == 0 or step == config.steps:
                found = evaluate(model, data, task=task, limit=config.data.max_eval_records)
                if best is None or found["mcc"] > best[0]["mcc"]:
                    best = found, step, {name: p.detach().clone() for name, p in _trained(model)}
                model.train()
            start, clock = step, time.perf_counter()
    seconds = time.perf_counter() - begin
    model.load_state_dict(best[2], strict=False)
    return {
        "steps": config.steps,
        "checkpoint": best[1],
        "validation": evaluate(model, data, task=task),
        "figures": {"data": data.named("")} | evaluate(model, data, task=task, name=data.named("")),
        "trainable": sum(p.numel() for _, p in _trained(model)),
        "texts_per_second": speed_of(spans) * config.data.rows,
        "seconds": seconds,
        "versions": _versions(),
    }


def classifier(folder, *, outputs, config):
    """transformers' encoder in `folder` with PEFT's LoRA, the mean over the tokens, and a linear head: a torch module.

    Its input is a batch of lwt.
    """
    torch = _import()
    import peft
    import transformers

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            body = transformers.AutoModel.from_pretrained(folder, add_pooling_layer=False)
            section = config.reparam
            lora = peft.LoraConfig(r=section.rank, lora_alpha=section.rank, target_modules=LINEAR, lora_dropout=0.0)
            self.body = peft.get_peft_model(body, lora)
            self.head = torch.nn.Linear(body.config.hidden_size, outputs)
            torch.nn.init.xavier_uniform_(self.head.weight)
            torch.nn.init.zeros_(self.head.bias)

        def forward(self, batch):
            segments = torch.from_numpy(batch["segments"]).long()
            mask = (segments > 0).long()
            hidden = self.body(
                input_ids=torch.from_numpy(batch["ids"]).long(),
                attention_mask=mask,
                token_type_ids=(segments - 1).clamp(min=0),
            ).last_hidden_state
            shown = mask[..., None].float()
            return self.head((hidden * shown).sum(1) / shown.sum(1).clamp(min=1))

    if config.model.pool != "mean":
        raise errors.ConfigError(f"model.pool={config.model.pool!r}: the PEFT side has the pool 'mean' only")
    return Classifier()


def evaluate(model, data, *, task, name="validation", limit=0):
    """The figures of a set, as `task` computes them, or of `limit` of its records."""
    torch, found = _import(), data.evaluation(name, limit=limit)
    outputs = np.zeros((len(found.sources), data.outputs), np.float32)
    model.eval()
    with torch.inference_mode():
        for batch in data.batches(found):
            real = batch["example"] >= 0
            outputs[batch["example"][real]] = model(batch).numpy()[real]
    return task.score(outputs, found.references)


def _optimizer(model, section):
    torch, given = _import(), section.arguments
    decayed = [p for name, p in _trained(model) if not name.endswith("bias")]
    others = [p for name, p in _trained(model) if name.endswith("bias")]
    groups = [
        {"params": decayed, "weight_decay": section.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=1.0, betas=(given.b1, given.b2), eps=given.eps)


def _trained(model):
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def _import():
    """The module torch; PEFT and transformers can be imported after it."""
    try:
        from benchmarks.torch import timm  # transformers imports torchvision, which this makes work

        import peft  # noqa: F401  # isort: skip
        import transformers  # noqa: F401  # isort: skip
    except ImportError as error:
        raise errors.ConfigError(f"{error.name} is missing; pip install -e '.[bench]'") from error
    return timm.torch


def _versions():
    import peft
    import torch
    import transformers

    return {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
