"""Logits, gradients and starts equal to those of Hugging Face PEFT on the same small network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import linear
from lwt.reparam import compose

# by way of `torch_timm`: PEFT imports torchvision, which may not fit PyTorch's build
torch = pytest.importorskip(
    "benchmarks.torch.timm", reason="needs torch and timm (the test extra)", exc_type=ImportError
).torch
peft = pytest.importorskip("peft", reason="needs peft (the test extra)")

V, D, HIDDEN, OUT = 23, 16, 24, 9
TOLERANCE = 1e-5  # of the largest element of each array
IDS = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 22, 0]])
NAMES = {"embed": "embed/embedding", "query": "query/kernel", "key": "key/kernel", "up": "up/kernel"}
TARGETS = "(query|key|up)/kernel"


class Network(torch.nn.Module):
    """Scores of one head of attention, then a feed-forward part: wide, tall and square kernels."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(V, D)
        self.query = torch.nn.Linear(D, D)
        self.key = torch.nn.Linear(D, D)
        self.up = torch.nn.Linear(D, HIDDEN)
        self.down = torch.nn.Linear(HIDDEN, OUT)

    def forward(self, ids):
        x = self.embed(ids)
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2), -1)
        return self.down(torch.tanh(self.up(weights @ x)))


def logits(weights, ids):
    """The same network in lwt."""

    def dense(name, x):
        return linear.linear(x, weights[f"{name}/kernel"]) + weights[f"{name}/bias"][None, None]

    x = linear.take(weights["embed/embedding"], ids)
    scores = jnp.einsum("btd,bsd->bts", dense("query", x), dense("key", x))
    return dense("down", jnp.tanh(dense("up", jax.nn.softmax(scores) @ x)))


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Network()


def base_of(network):
    base = {}
    for name, value in network.state_dict().items():
        layer, kind = name.split(".")
        value = value.numpy().copy()
        base["embed/embedding" if layer == "embed" else f"{layer}/{'bias' if kind == 'bias' else 'kernel'}"] = (
            value.T if value.ndim == 2 and layer != "embed" else value
        )
    return {name: jnp.asarray(value) for name, value in base.items()}


def leaves_of(wrapped):
    """PEFT's adapter parameters under lwt's names: ``{leaf: (parameter, transposed?)}``."""
    found = {}
    for name, parameter in wrapped.named_parameters():
        for kind, ours in (
            ("lora_A", "a"),
            ("lora_B", "b"),
            ("embedding_A", "a"),
            ("embedding_B", "b"),
            ("magnitude", "magnitude"),
        ):
            if kind in name:
                layer = name.removeprefix("base_model.model.").split(".")[0]
                found[f"{NAMES[layer]}/{ours}"] = parameter
    return found


def close(ours, theirs):
    theirs = np.asarray(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * np.abs(theirs).max())


CASES = {
    "lora": ({"name": "lora"}, {}),
    "rslora": ({"name": "lora", "scaling": "rslora"}, {"use_rslora": True}),
    "dora": ({"name": "dora"}, {"use_dora": True}),
    "patterns": (
        {"name": "lora", "rank_pattern": (("up/.*", 6),), "alpha_pattern": (("key/.*", 2.0),)},
        {"rank_pattern": {"up": 6}, "alpha_pattern": {"key": 2.0}},
    ),
    "embedding": ({"name": "lora", "targets": "(query|embed)/.*"}, {"target_modules": ["query", "embed"]}),
    "embedding, dora": (
        {"name": "dora", "targets": "(query|embed)/.*"},
        {"target_modules": ["query", "embed"], "use_dora": True},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_logits_and_gradients(case, network):
    ours, theirs = CASES[case]
    base = base_of(network)
    reparam = compose.build({"rank": 4, "alpha": 6.0, "targets": TARGETS, **ours})
    options = {"r": 4, "lora_alpha": 6, "target_modules": ["query", "key", "up"], **theirs}
    wrapped = peft.get_peft_model(network, peft.LoraConfig(**options))
    parameters = leaves_of(wrapped)
    adapter = reparam.init(jax.random.key(0), base)
    assert set(adapter) == set(parameters)
    generator = np.random.default_rng(0)
    with torch.no_grad():
        for name, parameter in parameters.items():
            if name.endswith("magnitude"):  # starts as the column norm in both
                close(adapter[name], parameter.numpy())
            parameter += torch.tensor(0.3 * generator.standard_normal(parameter.shape), dtype=torch.float32)
    adapter = {name: jnp.asarray(p.detach().numpy().T) for name, p in parameters.items()}

    expected = wrapped(torch.tensor(IDS))
    (expected**2).sum().backward()

    def loss(adapter):
        return (logits(reparam.expand(base, adapter, 0), IDS) ** 2).sum()

    close(logits(reparam.expand(base, adapter, 0), IDS), expected.detach().numpy())
    assert np.abs(np.asarray(logits(base, IDS)) - expected.detach().numpy()).max() > 0.1
    for name, gradient in jax.grad(loss)(adapter).items():
        close(gradient, parameters[name].grad.numpy().T)


@pytest.mark.parametrize("start", ["pissa", "olora"])
def test_starts(start, network):
    base = base_of(network)
    reparam = compose.build({"name": "lora", "rank": 4, "alpha": 6.0, "targets": TARGETS, "start": start})
    adapter = reparam.init(jax.random.key(0), base)
    options = {"r": 4, "lora_alpha": 6, "target_modules": ["query", "key", "up"], "init_lora_weights": start}
    wrapped = peft.get_peft_model(network, peft.LoraConfig(**options))
    parameters = {name: p.detach().numpy().T for name, p in leaves_of(wrapped).items()}
    for name in ("query/kernel", "key/kernel", "up/kernel"):
        sign = np.sign((np.asarray(adapter[f"{name}/a"]) * parameters[f"{name}/a"]).sum(0))
        close(adapter[f"{name}/a"] * sign[None], parameters[f"{name}/a"])
        close(adapter[f"{name}/b"] * sign[:, None], parameters[f"{name}/b"])
        left_over = wrapped.get_submodule(f"base_model.model.{name.split('/')[0]}").base_layer.weight.detach().numpy().T
        without = {**adapter, f"{name}/b": jnp.zeros_like(adapter[f"{name}/b"])}
        residual = linear.dense(reparam.expand(base, without, 0)[name])
        np.testing.assert_allclose(residual, left_over, atol=TOLERANCE * np.abs(base[name]).max())
