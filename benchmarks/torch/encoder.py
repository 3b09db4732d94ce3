"""EmbBERT and BERT(2MB) in PyTorch, with pre-training heads: the models of `lwt/models/{embbert,bert}.py`.

Modules have lwt's names, so that they load what `state` makes of its weights.
"""

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.torch import attend, conv
from configs import embbert_pretrain

DROPOUT = 0.1  # on attention weights, and in BERT on the sublayers' outputs
PARAMETERS = {"embbert": 1_414_274, "bert_2mb": 454_770}  # heads included: 129·8192 + 258, 81·2048 + 162


class NanoEmbed(nn.Module):
    """Token and position tables of width r with an expander each, and three segment rows of the full width."""

    def __init__(self, vocabulary, max_length, width, reduced):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, reduced), nn.Embedding(max_length, reduced)
        self.segment = nn.Embedding(3, width)
        self.token_expander, self.position_expander = (nn.Linear(reduced, width, bias=False) for _ in range(2))

    def forward(self, ids, segments):
        positions = self.position_expander(self.position.weight[: ids.shape[1]])
        return self.token_expander(self.token(ids)) + positions + self.segment(segments)


class FullEmbed(nn.Module):
    """Three tables of the full width."""

    def __init__(self, vocabulary, max_length, width):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(max_length, width)
        self.segment = nn.Embedding(3, width)

    def forward(self, ids, segments):
        return self.token(ids) + self.position.weight[: ids.shape[1]] + self.segment(segments)


class EfficientEncoder(nn.Module):
    """``x = RMSNorm(x)``, then ``λ_a · Attention(x) - λ_c · W SiLU(Conv(x))``; keys and values are x itself."""

    def __init__(self, width, kernel_size, channels_last):
        super().__init__()
        self.convolve = conv.channels_last if channels_last else conv.channels_first
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.attention = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "out")})
        self.conv = nn.Conv1d(width, width, kernel_size, groups=width)
        self.contract = nn.Linear(width, width)
        names = (f"{path}_{vector}" for path in ("attention", "conv") for vector in ("query", "key"))
        self.difference = nn.ParameterDict({name: 0.1 * torch.randn(width) for name in names})

    def weight(self, path):
        """The weight λ of a path."""
        return (self.difference[f"{path}_query"] * self.difference[f"{path}_key"]).sum().exp()

    def forward(self, x, mask):
        x = self.norm(x)
        q, kv, dropout = self.attention["query"](x)[:, None], x[:, None], DROPOUT if self.training else 0.0
        attended = attend.attend(q, kv, kv, mask, dropout)[:, 0]
        convolved = self.contract(F.silu(self.convolve(x, self.conv.weight, self.conv.bias)))
        return self.weight("attention") * self.attention["out"](attended) - self.weight("conv") * convolved


class Block(nn.Module):
    """BERT's: attention and feed-forward network (ReLU), each ``x = LayerNorm(x + Dropout(f(x)))``."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.self_attention = nn.ModuleDict({n: nn.Linear(width, width) for n in ("query", "key", "value", "out")})
        self.mlp = nn.ModuleDict(dict(fc1=nn.Linear(width, hidden), fc2=nn.Linear(hidden, width)))
        self.self_attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def attention(self, x, mask):
        """Queries, keys and values of all heads in one product."""
        parts = [self.self_attention[name] for name in ("query", "key", "value")]
        qkv = F.linear(x, torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts]))
        b, t, d = x.shape
        q, k, v = qkv.view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = attend.attend(q, k, v, mask, DROPOUT if self.training else 0.0)
        return self.self_attention["out"](mixed.transpose(1, 2).reshape(b, t, d))

    def forward(self, x, mask):
        def drop(y):
            return F.dropout(y, DROPOUT, self.training)

        x = self.self_attention_norm(x + drop(self.attention(x, mask)))
        return self.mlp_norm(x + drop(self.mlp["fc2"](F.relu(self.mlp["fc1"](x)))))


class Pretraining(nn.Module):
    """An encoder with its heads.

    Args:
        embed: embeds ids and segments `[b t]`; block: the encoders, called with `[b t d]` and a mask.
    """

    def __init__(self, embed, block, *, vocabulary, width):
        super().__init__()
        self.embed, self.block = embed, nn.ModuleList(block)
        self.head = nn.ModuleDict(dict(masked_lm=nn.Linear(width, vocabulary), next_sentence=nn.Linear(width, 2)))
        for name, weight in self.named_parameters():
            if weight.ndim == 2 and "embed" not in name:
                nn.init.xavier_uniform_(weight)

    def forward(self, ids, segments, mask, next_sentence, targets, places=None):
        """The loss: the mean over the masked tokens, and the mean over the rows.

        Args:
            ids, segments: `[b t]`.
            mask: `[b 1 1 t]`, added to the attention's logits: 0, and a large negative number for padding.
            next_sentence: `[b]`.
            targets: of all positions `[b·t]`, or of the places `[m]`; -100 where nothing is predicted.
            places: `[m]`, which of the b·t positions go through the vocabulary product; None: all.
        """
        x = self.embed(ids, segments)
        for block in self.block:
            x = block(x, mask)
        rows = x.flatten(0, 1)
        logits = self.head["masked_lm"](rows if places is None else rows.index_select(0, places))
        following = F.cross_entropy(self.head["next_sentence"](x[:, 0]), next_sentence)
        return F.cross_entropy(logits, targets, ignore_index=-100) + following


def embbert(*, vocabulary, width, reduced, layers, kernel_size, max_length=256, channels_last=True):
    """EmbBERT; without `channels_last`, its convolution is ``Conv1d``."""
    blocks = [EfficientEncoder(width, kernel_size, channels_last) for _ in range(layers)]
    return Pretraining(NanoEmbed(vocabulary, max_length, width, reduced), blocks, vocabulary=vocabulary, width=width)


def bert(*, vocabulary, width, heads, hidden, layers, max_length=256):
    """BERT."""
    blocks = [Block(width, heads, hidden) for _ in range(layers)]
    return Pretraining(FullEmbed(vocabulary, max_length, width), blocks, vocabulary=vocabulary, width=width)


def make(name, **options):
    """The model "embbert" or "bert_2mb" at the paper's size."""
    vocabulary, section = embbert_pretrain.MODELS[name]
    sizes = {key: value for key, value in section.items() if key not in ("name", "expansion", "attention")}
    return {"embbert": embbert, "bert": bert}[section["name"]](vocabulary=vocabulary, **sizes, **options)


def state(flat):
    """PyTorch's names and layouts for a flat dict of lwt's weights (or gradients): kernels are transposed."""
    kinds = dict.fromkeys(("kernel", "scale"), ".weight") | {"bias": ".bias"}
    found = {}
    for name, array in flat.items():
        stem, _, kind = name.replace("block_", "block.").replace("/", ".").rpartition(".")
        weight = torch.from_numpy(array)
        if kind == "kernel":
            weight = weight.T[:, None] if stem.endswith(".conv") else weight.T
        tables = f".{kind}" if stem.endswith(".difference") else f".{kind}.weight"
        found[stem + kinds.get(kind, tables)] = weight
    return found
