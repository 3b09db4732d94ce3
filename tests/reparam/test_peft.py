"""Logits, gradients and starts equal to those of Hugging Face PEFT on the same small network."""

import re
import types

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


def _same(x):
    return x


def _swapped(x):
    return x.swapaxes(0, 1)


def _of_c3a(model, reparam, shapes):
    """Lets PEFT multiply with the weights that it merges: its own gradient of a layer's input is wrong."""
    del reparam
    for name in shapes:
        layer = model.model.get_submodule(name.split("/")[0])

        def forward(x, layer=layer):
            w = layer.base_layer.weight + layer.get_delta_weight("default")
            return torch.nn.functional.linear(x, w, layer.base_layer.bias)

        layer.forward = forward


def _of_vera(model, reparam, shapes):
    """Gives PEFT our random matrices."""
    a, b = reparam.basis(max(n for n, _ in shapes.values()), max(n for _, n in shapes.values()))
    model.vera_A["default"].copy_(torch.tensor(a.T.copy()))
    model.vera_B["default"].copy_(torch.tensor(b.T.copy()))


def _of_shira(model, reparam, shapes):
    """Gives PEFT our places."""
    for name, (n_in, n_out) in shapes.items():
        layer = model.model.get_submodule(name.split("/")[0])
        places = reparam.places(name, (n_in, n_out), count=layer.shira_weight["default"].numel())
        rows, columns = np.divmod(places, n_out)
        layer.shira_indices["default"] = torch.tensor(np.stack([columns, rows]))


def _of_unilora(model, reparam, shapes):
    """Gives PEFT our places."""
    for name, places in reparam.places(shapes).items():
        layer = model.model.get_submodule(name.split("/")[0])
        for side, (index, scale) in zip("AB", places, strict=True):
            getattr(layer, f"unilora_indices_{side}")["default"] = torch.tensor(index.T.copy())
            getattr(layer, f"unilora_scales_{side}")["default"] = torch.tensor(scale.T.copy())


WHERE = ["query", "key", "up"]
LOKR = {x: (f"lokr_{y}", _swapped) for x, y in {"w1": "w1", "w2": "w2.", "a": "w2_b", "b": "w2_a"}.items()}
OFT = {"rotation": ("oft_R", _same)}
ADALORA = {"a": ("lora_A", _swapped), "b": ("lora_B", _swapped), "values": ("lora_E", np.ravel)}
SCHEDULE = {"init_r": 4, "target_r": 2, "lora_alpha": 6, "total_step": 12, "tinit": 2, "tfinal": 3, "deltaT": 2}
METHODS = {  # section, PEFT's config, {leaf: (part of a name in PEFT, how its array becomes ours)}, what PEFT gets
    "ia3": ({"feedforward": "up/kernel"}, ("IA3", {"feedforward_modules": ["up"]}), {"scale": ("ia3_l", np.ravel)}),
    "vera": ({"rank": 6}, ("Vera", {"r": 6}), {x: (x, _same) for x in ("lambda_d", "lambda_b")}, _of_vera),
    "lokr": ({"rank": 2, "alpha": 3.0}, ("LoKr", {"r": 2, "alpha": 3}), LOKR),
    "lokr, low rank": ({"rank": 1, "factor": 2}, ("LoKr", {"r": 1, "alpha": 8, "decompose_factor": 2}), LOKR),
    "hira": ({"rank": 4}, ("Hira", {"r": 4}), {"a": ("hira_A", _swapped), "b": ("hira_B", _swapped)}),
    "miss": ({"rank": 5}, ("Miss", {"r": 5}), {"b": ("miss_block", _same)}),  # which does not divide the inputs
    "oft": ({"block_size": 8}, ("OFT", {"oft_block_size": 8, "use_cayley_neumann": False}), OFT),
    "oft, series": ({"block_size": 4, "neumann": 5}, ("OFT", {"oft_block_size": 4}), OFT),
    "shira": ({"rank": 2}, ("Shira", {"r": 2}), {"entries": ("shira_weight", _same)}, _of_shira),
    "adalora": ({"rank": 4, "budget": 2, "alpha": 6.0}, ("AdaLora", SCHEDULE), ADALORA),
    "c3a": ({"block_size": 8}, ("C3A", {"block_size": 8}), {"circulant": ("c3a_kernel", _swapped)}, _of_c3a),
    "unilora": (
        {"rank": 3, "length": 40, "centred": False},
        ("UniLora", {"r": 3, "theta_d_length": 40}),
        {"theta": ("unilora_theta_d", _same)},
        _of_unilora,
    ),
}


@pytest.mark.parametrize("case", METHODS)
def test_other_methods(case, network):
    section, (kind, options), table, *share = METHODS[case]
    base, reparam = base_of(network), compose.build({"name": case.split(",")[0], "targets": TARGETS, **section})
    wrapped = peft.get_peft_model(network, getattr(peft, f"{kind}Config")(target_modules=WHERE, **options))
    if share:
        names = [name for name in sorted(base) if re.fullmatch(TARGETS, name)]
        share[0](wrapped.base_model, reparam, {name: base[name].shape for name in names})
    parameters = {}
    for name, parameter in wrapped.named_parameters():
        if parameter.requires_grad:
            ours = next(ours for ours, (theirs, _) in table.items() if theirs in f"{name}.")
            layer = name.removeprefix("base_model.model.").split(".")[0]
            parameters[ours if ours == "theta" else f"{NAMES[layer]}/{ours}"] = parameter
    start = reparam.init(jax.random.key(0), base)
    generator = np.random.default_rng(0)
    with torch.no_grad():
        for parameter in parameters.values():
            parameter += torch.tensor(0.3 * generator.standard_normal(parameter.shape), dtype=torch.float32)

    def ours_of(leaf, array):
        return jnp.asarray(table[leaf.rpartition("/")[2]][1](array))

    adapter = {leaf: ours_of(leaf, parameter.detach().numpy()) for leaf, parameter in parameters.items()}
    assert {leaf: x.shape for leaf, x in adapter.items()} == {leaf: x.shape for leaf, x in start.items()}
    expected = wrapped(torch.tensor(IDS))
    (expected**2).sum().backward()

    def loss(adapter):
        return (logits(reparam.expand(base, adapter, 0), IDS) ** 2).sum()

    close(logits(reparam.expand(base, adapter, 0), IDS), expected.detach().numpy())
    assert np.abs(np.asarray(logits(base, IDS)) - expected.detach().numpy()).max() > 0.01
    for leaf, gradient in jax.grad(loss)(adapter).items():
        close(gradient, ours_of(leaf, parameters[leaf].grad.numpy()))


def test_adalora_prunes_and_is_penalised_like_peft(network):
    section = {"rank": 4, "budget": 2, "alpha": 6.0, "begin": 2, "end": 9, "every": 2, "targets": TARGETS}
    reparam = compose.build({"name": "adalora", **section})
    wrapped = peft.get_peft_model(network, peft.AdaLoraConfig(target_modules=WHERE, **SCHEDULE))
    parameters, generator = {}, np.random.default_rng(0)
    for name, parameter in wrapped.named_parameters():
        if parameter.requires_grad:
            layer, kind = name.removeprefix("base_model.model.").split(".")[:2]
            leaf = next(ours for ours, (theirs, _) in ADALORA.items() if theirs == kind)
            parameters[f"{NAMES[layer]}/{leaf}"] = parameter

    def ours(arrays):
        turned = {leaf: ADALORA[leaf.rpartition("/")[2]][1](array) for leaf, array in arrays.items()}
        return {leaf: jnp.asarray(array.copy()) for leaf, array in turned.items()}

    memory, advance, left = None, jax.jit(reparam.advance), []
    for step in range(1, 13):
        for parameter in parameters.values():
            parameter.data += torch.tensor(generator.standard_normal(parameter.shape), dtype=torch.float32)
            parameter.grad = torch.tensor(generator.standard_normal(parameter.shape), dtype=torch.float32)
        before = ours({leaf: parameter.detach().numpy() for leaf, parameter in parameters.items()})
        gradients = ours({leaf: parameter.grad.numpy() for leaf, parameter in parameters.items()})
        memory = memory or reparam.memory(before)
        after, memory = advance(before, memory, gradients=gradients, step=step, key=None)
        wrapped.base_model.update_and_allocate(step)
        for leaf, parameter in parameters.items():
            np.testing.assert_array_equal(after[leaf], ours({leaf: parameter.detach().numpy()})[leaf], err_msg=leaf)
        left.append(sum(int((w != 0).sum()) for leaf, w in after.items() if leaf.endswith("values")))
    assert left[:3] == [12, 12, 12] and left[3] < 12 and left[8:] == [6] * 4
    wrapped.base_model.model.forward = lambda: types.SimpleNamespace(loss=torch.zeros(()))
    close(reparam.penalty(after), wrapped.base_model().loss.detach().numpy())
