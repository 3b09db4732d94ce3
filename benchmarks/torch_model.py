"""The translation transformer in PyTorch: padded rows as everyone writes it, and the same weights without any padding.

d=128, 4+4 layers, 4 heads, f=512, v=50,048 tied three ways, post-norm, ReLU, sinusoidal positions, dropout 0.1 on embeddings,
attention weights and sublayer outputs: 8,257,536 parameters.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import samples

WIDTH, HEADS, HIDDEN, LAYERS, DROPOUT = 128, 4, 512, 4, 0.1
PARAMETERS = 8_257_536


class Attention(nn.Module):
    """Multi-head attention; `plan` says which queries see which keys, and in what layout the tokens come."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, context, plan):
        dropout = DROPOUT if self.training else 0.0
        return self.out(plan(self.query(x), self.key(context), self.value(context), dropout))


class Layer(nn.Module):
    def __init__(self, cross):
        super().__init__()
        self.self_attention, self.self_attention_norm = Attention(), nn.LayerNorm(WIDTH)
        if cross:
            self.cross_attention, self.cross_attention_norm = Attention(), nn.LayerNorm(WIDTH)
        self.fc1, self.fc2, self.mlp_norm = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH), nn.LayerNorm(WIDTH)

    def _drop(self, x):
        return F.dropout(x, DROPOUT, self.training)

    def forward(self, x, plan, memory=None, cross_plan=None):
        x = self.self_attention_norm(x + self._drop(self.self_attention(x, x, plan)))
        if memory is not None:
            x = self.cross_attention_norm(x + self._drop(self.cross_attention(x, memory, cross_plan)))
        return self.mlp_norm(x + self._drop(self.fc2(F.relu(self.fc1(x)))))


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(samples.VOCABULARY, WIDTH)
        nn.init.normal_(self.embedding.weight, std=WIDTH**-0.5)
        self.encoder = nn.ModuleList(Layer(cross=False) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(cross=True) for _ in range(LAYERS))
        for name, weight in self.named_parameters():
            if weight.ndim == 2 and not name.startswith("embedding"):
                nn.init.xavier_uniform_(weight)
        self.register_buffer("positions", sinusoidal(samples.MAX_LENGTH), persistent=False)

    def embed(self, ids, positions):
        """Ids and positions of one shape (positions may lack leading axes) -> vectors."""
        x = self.embedding(ids) * math.sqrt(WIDTH) + self.positions[positions]
        return F.dropout(x, DROPOUT, self.training)

    def encode(self, x, plan):
        for layer in self.encoder:
            x = layer(x, plan)
        return x

    def decode(self, x, memory, plan, cross_plan):
        for layer in self.decoder:
            x = layer(x, plan, memory, cross_plan)
        return x


def sinusoidal(length):
    """The table of positions `[length d]`: sine and cosine in turn."""
    frequency = torch.exp(-math.log(10000.0) * torch.arange(0, WIDTH, 2) / WIDTH)
    angles = torch.arange(length)[:, None] * frequency
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(length, WIDTH)


def heads(x):
    """`[b t d]` -> `[b h t k]`."""
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def padded_plan(mask=None, *, causal=False):
    """Attention of padded rows `[b t d]`; mask `[b 1 1|t s]`, True where allowed."""

    def attend(q, k, v, dropout):
        mixed = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), mask, dropout, is_causal=causal)
        return mixed.transpose(1, 2).flatten(-2)

    return attend


def grouped_plan(groups):
    """Attention of tokens without padding `[n d]`: padded inside groups of sentences of like length only.

    Args:
        groups: a list of ``(q_slots [b t], k_slots [b s], mask [b 1 t s] or [b 1 1 s])``: the place of every padded
            position in the flat arrays (any place for padding), and the ``q_back [n']`` that picks a group's real
            queries, group by group in the order of the flat array, from its ``b·t`` results.
    """

    def attend(q, k, v, dropout):
        parts = []
        for q_slots, k_slots, mask, q_back in groups:
            mixed = F.scaled_dot_product_attention(
                heads(q[q_slots]), heads(k[k_slots]), heads(v[k_slots]), mask, dropout
            )
            parts.append(mixed.transpose(1, 2).reshape(-1, WIDTH)[q_back])
        return torch.cat(parts)

    return attend


def packed_plan(mask):
    """Attention of rows that each hold several sentences `[r·t d]`; mask `[r 1 t s]` is block-diagonal."""
    rows = mask.shape[0]

    def attend(q, k, v, dropout):
        q, k, v = (heads(x.unflatten(0, (rows, -1))) for x in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        return mixed.transpose(1, 2).flatten(-2).flatten(0, 1)

    return attend
