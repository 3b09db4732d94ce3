"""Softmax attention as one kernel of cuDNN, where an NVIDIA GPU has one that computes the same function.

`jax.nn.dot_product_attention` holds no array of weights, whatever the length (Dao et al. 2022, "FlashAttention").
"""

import jax
import jax.numpy as jnp
from jax import export
from jax.extend import backend
from jaxtyping import Array, Float

from lwt.attention.parts import masks

KERNEL = "cudnn"  # what `jax.nn.dot_product_attention` calls it
OLDEST = 8.0  # compute capability of the first GPUs (Ampere) that have the kernel
WIDEST, MULTIPLE = 128, 8  # head widths
LARGEST = 2**27  # numbers of a mask; beyond, blocks of queries save its memory


def fits(q, k, *, v, mask, key, dtype):
    """Whether `attend` can stand in for `core.attend`: on such a GPU, in bfloat16, without dropout.

    Args:
        q, k, v, mask: as `attend` takes them.
        key: random key of dropout, or None.
        dtype: of the products' operands.
    """
    (b, _, t, width), s = q.shape, k.shape[2]
    if key is not None or dtype != "bfloat16" or v.shape[3] != width or width > WIDEST or width % MULTIPLE:
        return False
    if any(map(export.is_symbolic_dim, (b, t, s))):  # sizes that an exported file leaves open
        return False
    if _needs_array(mask, t, s) and (t % 2 or s % 2 or b * t * s > LARGEST):
        return False
    return has_kernel()


def has_kernel():
    """Whether the default device is an NVIDIA GPU with the kernel."""
    if jax.default_backend() != "gpu" or "cuda" not in backend.get_backend().platform_version:
        return False
    return float(jax.local_devices()[0].compute_capability) >= OLDEST


def attend(
    q: Float[Array, "b h t k"],
    k: Float[Array, "b g s k"],
    *,
    v: Float[Array, "b g s k"],
    mask: masks.Mask | None = None,
) -> Float[Array, "b h t k"]:
    """``softmax(q kᵀ) v`` with operands in bfloat16; each of the g heads of keys serves h/g heads of queries in turn.

    Args:
        q: queries, scaled.
        mask: what each query may see; None: everything.
    """
    (b, _, t, _), s = q.shape, k.shape[2]
    allowed = mask.array(t, s) if _needs_array(mask, t, s) else None
    lengths = {}
    if t % 2 or s % 2:  # JAX has gradients for even lengths only: a padded position is masked by the rows' lengths
        lengths = dict(query_seq_lengths=jnp.full(b, t, jnp.int32), key_value_seq_lengths=jnp.full(b, s, jnp.int32))
    output = jax.nn.dot_product_attention(
        *(_even(x.swapaxes(1, 2).astype(jnp.bfloat16)) for x in (q, k, v)),
        mask=None if allowed is None else jnp.broadcast_to(allowed, (*allowed.shape[:2], t, s)),
        scale=1.0,
        is_causal=mask is not None and allowed is None and mask.causal,
        implementation=KERNEL,
        **lengths,
    )
    return output[:, :t].swapaxes(1, 2).astype(jnp.float32)


def _even(x):
    """`[b t ...]` with a position of zeros after the last if t is odd."""
    return jnp.pad(x, ((0, 0), (0, x.shape[1] % 2), (0, 0), (0, 0)))


def _needs_array(mask, t, s):
    """Whether the kernel needs the mask as an array; it knows the causal one of whole rows."""
    if mask is None:
        return False
    apart = mask.key_segments is not None or mask.query_segments is not None
    return apart or (mask.causal and (mask.nothing or t != s))
