"""Decodes 256 sentences greedily in CTranslate2: ``--variant=float32|int8``."""

import tempfile

import ctranslate2
import numpy as np
from ctranslate2 import specs

from benchmarks import common
from benchmarks.work import decoding, samples
from lwt.machine import command_line

VARIANTS = {"float32": "float32", "int8": "int8_float32"}
TOKENS = [str(i) for i in range(samples.VOCABULARY)]  # CTranslate2 takes words, so the ids are written as words


def positions():
    """The sinusoidal table `[length d]`, sine and cosine alternating."""
    frequency = 10000.0 ** (-np.arange(0, samples.WIDTH, 2) / samples.WIDTH)
    angles = np.arange(samples.MAX_LENGTH + 1)[:, None] * frequency
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(len(angles), -1).astype(np.float32)


def spec_of(flat):
    """CTranslate2's description of the model with the weights of a flat dict under lwt's names."""
    spec = specs.TransformerSpec.from_config((samples.LAYERS, samples.LAYERS), num_heads=4, pre_norm=False)

    def linear(to, *names):
        to.weight = np.ascontiguousarray(np.concatenate([flat[f"{name}/kernel"].T for name in names]))
        to.bias = np.concatenate([flat[f"{name}/bias"] for name in names])

    def norm(to, name):
        to.gamma, to.beta = flat[f"{name}/scale"], flat[f"{name}/bias"]

    for side, part in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embeddings = part.embeddings[0] if side == "encoder" else part.embeddings
        embeddings.weight = flat["embed/embedding"]
        part.position_encodings.encodings = positions()
        for i, layer in enumerate(part.layer):
            name = f"{side}/layer_{i}"
            own = f"{name}/self_attention"
            linear(layer.self_attention.linear[0], f"{own}/query", f"{own}/key", f"{own}/value")
            linear(layer.self_attention.linear[1], f"{own}/out")
            norm(layer.self_attention.layer_norm, f"{own}_norm")
            if side == "decoder":
                cross = f"{name}/cross_attention"
                linear(layer.attention.linear[0], f"{cross}/query")
                linear(layer.attention.linear[1], f"{cross}/key", f"{cross}/value")
                linear(layer.attention.linear[2], f"{cross}/out")
                norm(layer.attention.layer_norm, f"{cross}_norm")
            linear(layer.ffn.linear_0, f"{name}/mlp/fc1")
            linear(layer.ffn.linear_1, f"{name}/mlp/fc2")
            norm(layer.ffn.layer_norm, f"{name}/mlp_norm")
    spec.decoder.projection.weight = flat["embed/embedding"]
    spec.register_source_vocabulary(TOKENS)
    spec.register_target_vocabulary(TOKENS)
    spec.config.bos_token = spec.config.decoder_start_token = TOKENS[samples.BEGIN]
    spec.config.eos_token, spec.config.unk_token = TOKENS[samples.END], TOKENS[1]
    spec.config.layer_norm_epsilon = 1e-5
    spec.validate()
    return spec


def translator(flat, compute_type):
    """A loaded `ctranslate2.Translator`."""
    spec = spec_of(flat)
    with tempfile.TemporaryDirectory() as folder:
        spec.optimize(quantization=compute_type if compute_type != "float32" else None)
        spec.save(folder)
        return ctranslate2.Translator(folder, intra_threads=common.THREADS, inter_threads=1, compute_type=compute_type)


def decode_with(model):
    """``decode(Sources) -> rows of ids``."""

    def decode(batch):
        words = [[TOKENS[i] for i in row[:n]] for row, n in zip(batch.ids, batch.lengths, strict=True)]
        results = model.translate_batch(
            words, beam_size=1, max_decoding_length=batch.limit, max_input_length=0, return_end_token=True
        )
        return [np.array([int(word) for word in result.hypotheses[0]], np.int32) for result in results]

    return decode


def main():
    flags = common.arguments(__doc__, VARIANTS, more=decoding.add_flags)
    batches, flat = decoding.load(flags)
    model = translator(flat, VARIANTS[flags.variant])
    run = decoding.runner(decode_with(model), batches, flags)
    common.serve(run, parameters=sum(weight.size for weight in flat.values()), warmup=2)


if __name__ == "__main__":
    with command_line.guarded():
        main()
