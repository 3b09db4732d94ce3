"""The translation transformer in PyTorch: on padded rows in the usual form, and with the same weights on packed rows.

d=128, 4+4 layers, 4 heads, f=512, v=50,048 tied three ways, post-norm, ReLU, sinusoidal positions, dropout 0.1 on
embeddings, attention weights and sublayer outputs: 8,257,536 parameters.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.torch import attend as attention
from benchmarks.work import samples

WIDTH, HEADS, HIDDEN, LAYERS, DROPOUT = 128, 4, 512, 4, 0.1
PARAMETERS = 8_257_536


class Attention(nn.Module):
    """Multi-head attention; `plan` knows which queries see which keys, and the layout of the tokens."""

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

    def forward(self, source, source_positions, inputs, target_positions, masks, packed):
        """The decoder's last hidden states, one row a position.

        Args:
            source, inputs: ids; padded rows, or (packed) packed rows laid end to end.
            source_positions, target_positions: their places in the sentences.
            masks: added to attention logits: encoder, decoder (None: causal rows), cross.
            packed: whether rows hold several sentences.
        """
        encoder, decoder, cross = (plan(mask, packed) for mask in masks)
        memory = self.embed(source, source_positions)
        for layer in self.encoder:
            memory = layer(memory, encoder)
        x = self.embed(inputs, target_positions)
        for layer in self.decoder:
            x = layer(x, decoder, memory, cross)
        return x.reshape(-1, WIDTH)

    def load(self, flat):
        """Loads weights under lwt's names (`samples.weights`); kernels are transposed."""
        kinds = {"kernel": "weight", "scale": "weight", "embedding": "weight", "bias": "bias"}
        state = {}
        for name, array in flat.items():
            *path, kind = name.replace("embed/", "embedding/").replace("layer_", "").replace("mlp/", "").split("/")
            weight = torch.from_numpy(array)
            state[".".join([*path, kinds[kind]])] = weight.T if kind == "kernel" else weight
        self.load_state_dict(state)


def sinusoidal(length):
    """The table of positions `[length d]`: sine and cosine alternating."""
    frequency = torch.exp(-math.log(10000.0) * torch.arange(0, WIDTH, 2) / WIDTH)
    angles = torch.arange(length)[:, None] * frequency
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(length, WIDTH)


def heads(x):
    """`[b t d]` -> `[b h t k]`."""
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def plan(mask, packed):
    """``attend(q, k, v, dropout)`` of padded rows `[b t d]`, or of packed rows end to end `[r·t d]`.

    Args:
        mask: `[b 1 1|t s]`, 0 where allowed and a large negative number elsewhere; None for causal rows.
        packed: whether the rows are packed.
    """

    def attend(q, k, v, dropout):
        if packed:
            q, k, v = (x.unflatten(0, (mask.shape[0], -1)) for x in (q, k, v))
        mixed = attention.attend(heads(q), heads(k), heads(v), mask, dropout).transpose(1, 2).flatten(-2)
        return mixed.flatten(0, 1) if packed else mixed

    return attend


def count(model, *, trained=False):
    """The number of a model's scalars, or of its trained ones."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad or not trained)
