"""Runs training steps of a Vision Transformer in PyTorch: ``--variant=vit:FORM[+compiled][+bf16]``.

    timm    timm's `VisionTransformer`
    plain   the same in a few lines: one product for patches, one for query, key and value, fused attention

"compiled" puts the model through `torch.compile`, "graphs" also records it as CUDA graphs; "bf16" is autocast with
float32 weights. All use fused AdamW; the images are normalised beforehand.
"""

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import common
from benchmarks.torch import train
from benchmarks.work import image_samples
from configs import vlora_cifar10
from lwt.machine import command_line

FORMS = ("timm", "plain")
VARIANTS = tuple(f"vit:{form}{suffix}" for form in FORMS for suffix in train.SUFFIXES)
MEAN, STD = (torch.tensor(values)[:, None, None] for values in (vlora_cifar10.MEAN, vlora_cifar10.STD))


class Attention(nn.Module):
    """Multi-head attention with PyTorch's fused kernel."""

    def __init__(self, width, heads, *, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    """A pre-norm block."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=1e-6) for _ in range(2))
        self.attn = Attention(width, heads)
        self.mlp = nn.ModuleDict(dict(fc1=nn.Linear(width, hidden), fc2=nn.Linear(hidden, width)))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


class Plain(nn.Module):
    """A ViT under timm's names: images `[b c s s]` -> logits."""

    def __init__(self, *, image_size, channels, patch, width, layers, heads, hidden, outputs):
        super().__init__()
        self.patch = patch
        self.patch_embed = nn.ModuleDict(dict(proj=nn.Conv2d(channels, width, patch, patch)))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, (image_size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads, hidden) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, outputs)

    def forward(self, images):
        b, c, side, _ = images.shape
        cut = images.view(b, c, side // self.patch, self.patch, side // self.patch, self.patch)
        patches = cut.permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * self.patch**2)
        kernel = self.patch_embed["proj"]
        x = F.linear(patches, kernel.weight.flatten(1), kernel.bias)
        x = torch.cat([self.cls_token.expand(b, -1, -1), x], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def make(form, sizes):
    """The model of a form; `sizes` are the arguments of `Plain`."""
    if form == "plain":
        return Plain(**sizes)
    from benchmarks.torch import timm

    names = dict(image_size="img_size", channels="in_chans", patch="patch_size", width="embed_dim", layers="depth")
    names |= dict(heads="num_heads", outputs="num_classes")
    theirs = {names[key]: value for key, value in sizes.items() if key != "hidden"}
    ratio = sizes["hidden"] / sizes["width"]
    return timm.vision_transformer.VisionTransformer(**theirs, mlp_ratio=ratio)


def prepare(batches):
    """``(images [b c s s] normalised, labels [b])`` of every batch."""

    mean, std = MEAN.to(torch.get_default_device()), STD.to(torch.get_default_device())

    def scale(image):
        return (train.tensor(image).permute(0, 3, 1, 2).float() / 255 - mean) / std

    return [(scale(batch["image"]).contiguous(), train.tensor(batch["label"]).long()) for batch in batches]


def trainer(form, options, size, batches):
    """``(run, parameters)`` of a form of the ViT; see `VARIANTS`."""
    images = dict(image_size=image_samples.SIZE, channels=image_samples.CHANNELS, outputs=image_samples.CLASSES)
    model = make(form, images | vlora_cifar10.SIZES[size])
    logits = train.compiled(model, options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05, fused=True)
    work = [*zip(prepare(batches), map(image_samples.counts, batches), strict=True)]

    def loss(item):
        return F.cross_entropy(logits(item[0]), item[1])

    run = train.runner(loss, optimizer, work, bf16="bf16" in options)
    return run, sum(weight.numel() for weight in model.parameters())


def main():
    flags = common.arguments(__doc__, VARIANTS, data=image_samples.DATA, more=image_samples.add_size)
    form, *options = flags.variant.partition(":")[2].split("+")
    train.start_torch(flags.device)
    run, parameters = trainer(form, options, flags.size, image_samples.batches(count=flags.batches))
    common.serve(run, parameters=parameters, peak=train.peak_bytes, warmup=2)


if __name__ == "__main__":
    with command_line.guarded():
        main()
