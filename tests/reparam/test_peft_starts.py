"""Starts from data equal those of Hugging Face PEFT on the same small network and the same batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.reparam import compose
from lwt.training import methods
from tests.reparam import test_peft

torch, peft, close, network = test_peft.torch, test_peft.peft, test_peft.close, test_peft.network
corda, loraga, settings = (pytest.importorskip(f"peft.tuners.lora.{name}") for name in ("corda", "loraga", "config"))
IDS = np.random.default_rng(1).integers(0, test_peft.V, (6, 7))
OPTIONS = {"r": 4, "lora_alpha": 6, "target_modules": test_peft.WHERE}


def ours(start, network, *, rank=4):
    """The leaves at step 0, from one batch."""
    base = test_peft.base_of(network)
    section = {"name": "lora", "rank": rank, "alpha": 6.0, "targets": test_peft.TARGETS, "start": start}
    reparam = compose.build(section)

    def loss(weights, ids):
        return (test_peft.logits(weights, ids) ** 2).sum()

    adapter = reparam.init(jax.random.key(0), base)
    watched = compose.watches(reparam, base, adapter=adapter)
    seen = methods.observe(loss, base, watched=watched, batches=[jnp.asarray(IDS)])
    return compose.look(reparam, adapter, base=base, seen=seen)


def run(network):
    (network(torch.tensor(IDS)) ** 2).sum().backward()


def factors(network, **options):
    wrapped = peft.get_peft_model(network, peft.LoraConfig(**OPTIONS, **options))
    return {name: p.detach().numpy().T for name, p in test_peft.leaves_of(wrapped).items()}


def aligned(adapter, theirs, name):
    """Our factors `a` and `b` with PEFT's signs of the directions."""
    sign = np.sign((np.asarray(adapter[f"{name}/a"]) * theirs[f"{name}/a"]).sum(0))
    return np.asarray(adapter[f"{name}/a"]) * sign[None], np.asarray(adapter[f"{name}/b"]) * sign[:, None]


@pytest.fixture
def names():
    return [f"{name}/kernel" for name in test_peft.WHERE]


def test_eva(network, names):
    """With 8 of 16 directions PEFT's random algorithm for the SVD is exact."""
    adapter = ours("eva", network, rank=8)
    config = peft.LoraConfig(
        **{**OPTIONS, "r": 8}, init_lora_weights="eva", eva_config=peft.EvaConfig(rho=1.0, tau=0.9999)
    )
    more = {"forward_fn": lambda model, x: model(x), "prepare_model_inputs_fn": None, "show_progress_bar": False}
    found = peft.get_eva_state_dict(network, [torch.tensor(IDS)], config, prepare_layer_inputs_fn=None, **more)
    for name in names:
        a, theirs = np.asarray(adapter[f"{name}/a"]), found[name.split("/")[0]].numpy().T
        close(a * np.sign((a * theirs).sum(0))[None], theirs)
        assert not np.any(adapter[f"{name}/b"])


def test_lora_ga(network, names):
    """PEFT leaves `a` unscaled, and multiplies `b` by the singular values as well: the directions are the same."""
    adapter = ours("lora_ga", network)
    options = {"init_lora_weights": "lora_ga", "lora_ga_config": peft.LoraGAConfig(direction="ArB2r", scale="stable")}
    loraga.preprocess_loraga(network, peft.LoraConfig(**OPTIONS, **options), lambda: run(network))
    gradients = {name: network.get_submodule(name)._peft_loraga_grad.numpy().copy() for name in test_peft.WHERE}
    theirs = factors(network, **options)
    for name in names:
        a, b = aligned(adapter, theirs, name)
        values = np.linalg.svd(gradients[name.split("/")[0]], compute_uv=False)[4:8]
        close(a / (b.shape[1] ** 0.25 / 4), theirs[f"{name}/a"])
        close(np.abs(b * values[:, None]), np.abs(theirs[f"{name}/b"]))


def test_corda(network, names):
    """PEFT divides the inputs by their maximum, which scales `a` and `b` against each other."""
    adapter = ours("corda", network)
    options = {"init_lora_weights": "corda", "corda_config": settings.CordaConfig(corda_method="ipm")}
    config = peft.LoraConfig(**OPTIONS, **options)

    def flat():
        return network(torch.tensor(IDS.reshape(1, -1)))  # PEFT takes one row

    corda.preprocess_corda(network, config, run_model=flat)
    theirs = factors(network, **options)
    for name in names:
        if name.startswith("up"):
            continue  # its inputs depend on how the batch is divided into rows
        a, b = aligned(adapter, theirs, name)
        scale = np.linalg.norm(theirs[f"{name}/a"]) / np.linalg.norm(a)
        close(a * scale, theirs[f"{name}/a"])
        close(b / scale, theirs[f"{name}/b"])
