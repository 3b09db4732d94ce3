"""Decodes 256 sentences greedily in PyTorch with a key-value cache: ``--variant=eager|compiled|graphs[+bf16]``.

One product gives queries, keys and values; the encoder's keys and values are computed once; the compiled step is frozen
(the compiler repacks the weights). "graphs" records the compiled step as one CUDA graph for each batch.
"""

import math

import torch
import torch.nn.functional as F

from benchmarks import common
from benchmarks.torch import model as torch_model
from benchmarks.torch import train
from benchmarks.work import decoding, samples
from lwt.machine import command_line

VARIANTS = ("eager", "compiled", "eager+bf16", "compiled+bf16", "graphs+bf16")  # graphs: on a GPU alone


def fused(attention, names):
    """Several projections of an attention as one ``(weight, bias)``."""
    parts = [getattr(attention, name) for name in names]
    return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])


class Decoder(torch.nn.Module):
    """One step of decoding, from a `torch_model.Translator`."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.table = model.embedding.weight
        self.qkv = [fused(layer.self_attention, ("query", "key", "value")) for layer in model.decoder]
        self.memory_kv = [fused(layer.cross_attention, ("key", "value")) for layer in model.decoder]

    def start(self, ids, lengths, limit):
        """Encodes; returns ``(keys, values, memory keys, memory values)`` of each layer, and a mask."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        mask = self.table.new_zeros(ids.shape).masked_fill(positions >= lengths[:, None], train.BLOCKED)
        mask = mask[:, None, None, :]
        memory = self.model.embed(ids, positions)
        for layer in self.model.encoder:
            memory = layer(memory, torch_model.plan(mask, packed=False))
        caches = []
        for weight, bias in self.memory_kv:
            empty = [self.table.new_zeros(len(ids), torch_model.HEADS, limit, 32) for _ in range(2)]
            memory_kv = [torch_model.heads(x).contiguous() for x in F.linear(memory, weight, bias).chunk(2, -1)]
            caches.append((*empty, *memory_kv))
        return caches, mask

    def forward(self, tokens, index, caches, memory_mask):
        """Tokens `[b]` at position `index` (a tensor of one number) -> the next tokens; writes into the caches."""
        x = (self.table[tokens] * math.sqrt(samples.WIDTH) + self.model.positions[index])[:, None]
        limit = caches[0][0].shape[2]
        positions = torch.arange(limit, device=x.device)
        mask = torch.zeros(limit, dtype=x.dtype, device=x.device).masked_fill(positions > index, train.BLOCKED)
        for layer, (weight, bias), (keys, values, memory_keys, memory_values) in zip(
            self.model.decoder, self.qkv, caches, strict=True
        ):
            q, k, v = (torch_model.heads(y) for y in F.linear(x, weight, bias).chunk(3, -1))
            keys.index_copy_(2, index, k)
            values.index_copy_(2, index, v)
            mixed = F.scaled_dot_product_attention(q, keys, values, mask[None, None, None])
            x = layer.self_attention_norm(x + layer.self_attention.out(mixed.transpose(1, 2).flatten(-2)))
            q = torch_model.heads(layer.cross_attention.query(x))
            mixed = F.scaled_dot_product_attention(q, memory_keys, memory_values, memory_mask)
            x = layer.cross_attention_norm(x + layer.cross_attention.out(mixed.transpose(1, 2).flatten(-2)))
            x = layer.mlp_norm(x + layer.fc2(F.relu(layer.fc1(x))))
        return F.linear(x[:, 0], self.table).argmax(-1)


def decode_with(decoder, begin):
    """``decode(Sources) -> ids [b limit]``; ends when every answer has ended.

    Args:
        begin: ``begin(*arguments)`` of the decoder, except tokens and index, gives ``step(tokens, index)``.
    """
    device = decoder.table.device

    @torch.inference_mode()
    def decode(batch):
        ids, lengths = (torch.from_numpy(array).to(device) for array in (batch.ids, batch.lengths))
        step = begin(*decoder.start(ids.long(), lengths, batch.limit))
        tokens = ids.new_full((len(ids),), samples.BEGIN, dtype=torch.long)
        answers = tokens.new_full((len(ids), batch.limit), samples.PAD)
        done, places = torch.zeros_like(tokens, dtype=torch.bool), torch.arange(batch.limit, device=device)
        for i in range(batch.limit):
            tokens = step(tokens, places[i : i + 1])
            answers[:, i] = tokens
            done |= tokens == samples.END
            if done.all():
                break
        return answers.cpu().numpy()

    return decode


def plain(step):
    """`begin` of `decode_with` for a step that is called as it is."""

    def begin(caches, mask):
        return lambda tokens, index: step(tokens, index, caches, mask)

    return begin


def recorded(step):
    """`begin` of `decode_with` for a step that is recorded as a CUDA graph, once for each shape of a batch."""
    graphs = {}

    def begin(caches, mask):
        given = [mask, *(x for layer in caches for x in layer)]
        key = tuple(x.shape for x in given)
        if key not in graphs:
            graphs[key] = record(caches, mask)
        graph, own, tokens, index, answer = graphs[key]
        for kept, new in zip(own, given, strict=True):
            kept.copy_(new)

        def replay(given_tokens, given_index):
            tokens.copy_(given_tokens)
            index.copy_(given_index)
            graph.replay()
            return answer.clone()

        return replay

    def record(caches, mask):
        caches, mask = [tuple(x.clone() for x in layer) for layer in caches], mask.clone()
        tokens = torch.zeros(len(mask), dtype=torch.long, device=mask.device)
        index = torch.zeros(1, dtype=torch.long, device=mask.device)
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                step(tokens, index, caches, mask)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answer = step(tokens, index, caches, mask)
        return graph, [mask, *(x for layer in caches for x in layer)], tokens, index, answer

    return begin


def make(flat, *, bf16=False):
    """The `Decoder` of flat weights."""
    model = torch_model.Translator()
    model.load(flat)
    model = model.eval().requires_grad_(False)
    return Decoder(model.bfloat16() if bf16 else model)


def main():
    flags = common.arguments(__doc__, VARIANTS, more=decoding.add_flags)
    train.start_torch(flags.device)
    kind, *options = flags.variant.split("+")
    batches, flat = decoding.load(flags)
    decoder = make(flat, bf16="bf16" in options)
    train.made()
    step = decoder
    if kind != "eager":
        torch._inductor.config.freezing = True
        step = torch.compile(decoder, dynamic=False)  # one program per shape, all compiled in the warm-up
        torch._dynamo.config.recompile_limit = 4 * len(batches)
    begin = recorded(step) if kind == "graphs" else plain(step)
    run = decoding.runner(decode_with(decoder, begin), batches, flags)
    common.serve(run, parameters=torch_model.count(decoder.model), peak=train.peak_bytes, warmup=2)


if __name__ == "__main__":
    with command_line.guarded():
        main()
