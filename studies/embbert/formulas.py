"""What a layer of EmbBERT-Q's paper costs: the formulas of its Tables 1, 13 and 14, as functions of the sizes.

Sizes are named as in the paper, and may be numpy arrays: v rows of the table, l positions, d width, r reduced width of
the Nano Embedder (r_d), a expansion (α), k taps of the convolution, h heads, n layers (N), s states of the SSM (d_s).
All formulas are for one example of l positions, without biases; a value is a number, whatever its precision.

Where the paper's text and tables differ, the tables are taken, and the docstring says what differs.
"""

# ruff: noqa: E741 (`l` is the paper's name)

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Cost:
    """The costs of a layer, or of layers one after the other. Each is a count (or an array of counts).

    Attributes:
        weights: stored values.
        activations: values alive at once, at most.
        accesses: reads and writes of memory.
        sums: additions.
        products: multiplications.
    """

    weights: int = 0
    activations: int = 0
    accesses: int = 0
    sums: int = 0
    products: int = 0

    def __add__(self, other):
        """One layer after the other: activations do not add up; the larger count is kept."""
        return Cost(
            self.weights + other.weights,
            np.maximum(self.activations, other.activations),
            self.accesses + other.accesses,
            self.sums + other.sums,
            self.products + other.products,
        )

    def times(self, n):
        """The layer n times, with weights of its own every time."""
        return Cost(n * self.weights, self.activations, n * self.accesses, n * self.sums, n * self.products)

    def bytes(self, *, weight=4.0, activation=4.0):
        """``M = W · P_w + A · P_a`` (section 3.2); 4 and 4 are float32, 1.08 and 2 the quantized model."""
        return self.weights * weight + self.activations * activation


def embedder(*, v, l, d):
    """BERT's embedder: equations 1 and 2; Tables 13 and 14, row Embedder."""
    return Cost((v + l + 2) * d, 2 * d * l, l * (4 * d + 2) + 2 * d, 2 * l * d, 0)


def nano_embedder(*, v, l, d, r):
    """Tokens and positions of width r, expanded to d: equations 3 and 4; Table 1, Embedder block; Tables 13 and 14."""
    return Cost(
        r * (v + l + 2 * d) + 2 * d,
        r * l + 2 * d * l,
        l * (4 * r * d + d + 2 * r + 2) + 2 * d,
        2 * l * d * (r + 1),
        2 * l * d * r,
    )


def ngrams(*, weights, classes, l):
    """The table of n-grams of lwt's heads (`lwt/layers/text_head.py`), not in the paper: ``weights // classes`` rows.

    A text of one segment looks up l rows for its tokens and l - 1 for their pairs.
    """
    read = (2 * l - 1) * classes
    return Cost(weights // classes * classes, classes, read + 2 * l, read, classes)


def norm(*, l, d):
    """Normalization: Tables 1, 13 and 14. (Counted with two vectors; EmbBERT's RMSNorm has one.)"""
    return Cost(2 * d, 2 * d * l, 2 * d * (l + 1), l * d, l * d)


def feed_forward(*, l, d, a):
    """Two linear layers d -> α·d -> d: equations 9 and 10; Tables 13 and 14.

    Activations are those of equation 10, 2·l·d + l·d·α. Table 13 prints d·l·(2α), the same for the α = 2 of all models
    that have the layer.
    """
    operations = 2 * l * d * (d * a + 1)
    return Cost(2 * d * d * a, 2 * l * d + l * d * a, 2 * operations, operations, operations)


def attention(*, l, d, h):
    """Multi-head attention: appendix B.1; Tables 13 and 14.

    The tables count l²·d operations for *every* head; heads of width d/h need l²·d for all of them together.
    """
    return Cost(
        4 * d * d,
        4 * d * l + l * l * h,
        8 * l * d * d + 2 * l * l * h * (2 * d + 1),
        l * d * (4 * d + 1) + l * l * h * (2 * d + 1),
        4 * l * d * d + l * l * h * (2 * d + 3),
    )


def efficient_attention(*, l, d):
    """One head, keys and values are the input: equations 5 and 6; Table 1, Eff. Attention block; Tables 13 and 14."""
    return Cost(
        2 * d * d,
        2 * d * l + l * l,
        4 * l * d * d + 4 * l * l * d + 2 * l * l,
        2 * l * d * d + 2 * l * l * d + l * l + l * d,
        2 * l * d * d + 2 * l * l * d + 2 * l * l,
    )


def conv_skip(*, l, d, a, k):
    """Convolution, SiLU, linear, and the weighted difference of the paths: Table 1, Conv Skip block; section 3.2.2.

    The counts of that section include the difference (2·d·l accesses and products, d·l sums). Its k + 7 products are
    one more than the sum of their parts in appendix B.4.
    """
    return Cost(
        d * d * a + k * d * a,
        d * l * (2 + a),
        d * l * (k + 4 + 2 * d * a),
        d * l * (k + 2 + d * a),
        d * l * (k + 7 + d * a),
    )


def efficient_skip(*, l, d, a, k):
    """Attention and convolution side by side: equations 7 and 8; Table 14, row Eff Diff Skip Attention.

    Table 14 prints l² products for the softmax where its row Efficient Attention has 2·l².
    """
    return Cost(
        2 * d * d + d * d * a + k * d * a,
        np.maximum(2 * d * l + l * l, d * l * (2 + a)),
        l * d * (4 * d + 4 * l + 2 * d * a + k + 4) + 2 * l * l,
        l * d * (2 * d + 2 * l + d * a + k + 3) + l * l,
        l * d * (2 * d + 2 * l + d * a + k + 7) + l * l,
    )


def ssm(*, l, i, s, rho):
    """The selective scan over i channels: Table 14, row SSM. `rho` is the rank of the step sizes (ρ).

    Weights (projections to steps and states, the states' rates, the skip): Table 13 has no such row; these are counted.
    """
    return Cost(
        i * (rho + 2 * s) + rho * i + i + i * s + i,
        2 * i * s * l + 4 * i * l + 2 * s * l,
        l * i * (18 * s + 4 * rho + 8) + i,
        l * i * (4 * s + 2 * rho + 2),
        l * i * (7 * s + 2 * rho + 2),
    )


def mamba_block(*, l, d, a, k, s):
    """A block of MAMBA with i = α·d channels and ρ = d/16: Table 14, rows MAMBA main and SSM.

    Weights are counted, as in `ssm`: a norm's vector, 2·d·i in, (k + 1)·i of the convolution, i·d out.
    """
    i = d * a
    inner = ssm(l=l, i=i, s=s, rho=-(-d // 16))
    outer = Cost(
        d + 3 * d * i + (k + 1) * i,
        0,
        l * i * (6 * d + 9) + l * d + k,
        l * i * (3 * d + 2 + k) + l * d,
        l * i * (3 * d + 5 + k),
    )
    return outer + inner


def embbert(*, v, l, d, r, a, k, n):
    """EmbBERT: ``W_emb + N·W_enc`` and ``max(A_emb, A_enc)`` (section 3.2)."""
    return nano_embedder(v=v, l=l, d=d, r=r) + (norm(l=l, d=d) + efficient_skip(l=l, d=d, a=a, k=k)).times(n)


def bert(*, v, l, d, a, h, n):
    """BERT, with a norm before each of the two parts of a layer."""
    part = norm(l=l, d=d)
    return embedder(v=v, l=l, d=d) + (part + attention(l=l, d=d, h=h) + part + feed_forward(l=l, d=d, a=a)).times(n)


def bert_ne(*, v, l, d, r, a, h, n):
    """BERT with the Nano Embedder (section 6)."""
    part = norm(l=l, d=d)
    layer = part + attention(l=l, d=d, h=h) + part + feed_forward(l=l, d=d, a=a)
    return nano_embedder(v=v, l=l, d=d, r=r) + layer.times(n)


def bert_ea(*, v, l, d, a, n):
    """BERT with efficient attention (section 6)."""
    part = norm(l=l, d=d)
    layer = part + efficient_attention(l=l, d=d) + part + feed_forward(l=l, d=d, a=a)
    return embedder(v=v, l=l, d=d) + layer.times(n)


def bert_ne_ea(*, v, l, d, r, a, n):
    """BERT with the Nano Embedder and efficient attention (section 6)."""
    part = norm(l=l, d=d)
    layer = part + efficient_attention(l=l, d=d) + part + feed_forward(l=l, d=d, a=a)
    return nano_embedder(v=v, l=l, d=d, r=r) + layer.times(n)


def mamba(*, v, l, d, a, k, s, n):
    """MAMBA behind BERT's embedder."""
    return embedder(v=v, l=l, d=d) + mamba_block(l=l, d=d, a=a, k=k, s=s).times(n)


def embedder_only(*, v, l, d, r, k=0):
    """The Nano Embedder and a norm; with k > 0 a depthwise convolution too.

    Table 2 prints the activations of the norm, 2·d·l; the embedder's own are r·l more (equation 4).
    """
    whole = nano_embedder(v=v, l=l, d=d, r=r) + norm(l=l, d=d)
    conv = Cost(k * d, 0, d * l * (k + 1) * (k > 0), d * l * k, d * l * k)  # section B.4, the convolution step
    return dataclasses.replace(whole + conv, activations=2 * d * l)


def row_by_row(*, l, d, a):
    """Values alive at once in an EmbBERT block that is computed a position at a time: ``{moment: values}``.

    The normalised input (queries, keys and values come from it, and the convolution) and the block's output live
    through the block; beside them there is one row: no l x l array, no second l x d·α array. The largest moment is
    what a device needs; the paper's schedule keeps max(2·d·l + l², d·l·(2 + α)).
    """
    through = 2 * l * d
    return {
        "query and scores": through + d + l,
        "weights and context": through + l + d,
        "convolution": through + d * a,
    }
