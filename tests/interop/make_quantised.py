#!/usr/bin/env python3
"""Makes the folders of quantised/: one small Llama, as programs that quantise
store it.

    pip install torch transformers safetensors compressed-tensors
    python3 tests/interop/make_quantised.py

Each folder has config.json and model.safetensors in one format, and
want.safetensors: its matrices as the product in f32 of numbers and scales.
What the package compressed-tensors makes of its own formats, and of blocks in
f8e4m3, is asserted to be the same.  Tests: tests/unit/data/t-quantised.c,
tests/cli/run/quantised.sh.
"""
import json
import os
import shutil

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
AWQ_PLACES = [0, 4, 1, 5, 2, 6, 3, 7]   # of the numbers in a word
F8 = torch.float8_e4m3fn


def spread(v, shape, rows, columns):
    """Of scales or zero points: that of each element of a matrix."""
    v = v.repeat_interleave(rows or shape[0], 0)[:shape[0]]
    return v.repeat_interleave(columns or shape[1], 1)[:, :shape[1]]


def largest(w, rows, columns, fold):
    """Over the blocks of a matrix; `fold` is amax or amin."""
    r, c = rows or w.shape[0], columns or w.shape[1]
    return torch.stack([torch.stack([fold(w[i:i + r, j:j + c])
                                     for j in range(0, w.shape[1], c)])
                        for i in range(0, w.shape[0], r)])


def fp8(w, rows, columns, scale_type=torch.float32):
    scale = largest(w.abs(), rows, columns, torch.amax) / 448
    scale = scale.to(scale_type)
    all_scales = spread(scale.float(), w.shape, rows, columns)
    q = (w / all_scales).clamp(-448, 448).to(F8)
    return q, scale, q.float() * all_scales


def whole(w, bits, rows, columns, symmetric, scale_type=torch.float32,
          order=None):
    """Numbers from 0 on, scales, zero points, and the product."""
    most = 2 ** bits - 1
    moved = w if order is None else w[:, order]
    if symmetric:
        scale = largest(moved.abs(), rows, columns, torch.amax) / (most // 2)
        zero = torch.full_like(scale, most // 2 + 1)
    else:
        high = largest(moved, rows, columns, torch.amax).clamp(min=0)
        low = largest(moved, rows, columns, torch.amin).clamp(max=0)
        scale = (high - low) / most
        zero = (-low / scale).round().clamp(0, most)
    scale = scale.to(scale_type)
    scales = spread(scale.float(), w.shape, rows, columns)
    zeros = spread(zero, w.shape, rows, columns)
    if order is not None:
        back = order.argsort()
        scales, zeros = scales[:, back], zeros[:, back]
    q = (w / scales + zeros).round().clamp(0, most)
    return q.int(), scale, zero.int(), (q - zeros) * scales


def words(q, bits, places=None):
    """The last dim in words of 32 bits, the lowest bits first."""
    n = 32 // bits
    pad = -q.shape[-1] % n
    q = torch.nn.functional.pad(q.long(), (0, pad))
    q = q.reshape(*q.shape[:-1], -1, n)
    shifts = torch.tensor(places or list(range(n))) * bits
    v = (q << shifts).sum(-1)
    return torch.where(v >= 2 ** 31, v - 2 ** 32, v).int()


# ---- formats: a module's tensors, and the matrix that they are ----

def fp8_block(w):
    q, s, want = fp8(w, 16, 16)
    return {"weight": q, "weight_scale_inv": s}, want


def fp8_tensor(w):
    q, s, want = fp8(w, 0, 0)
    return {"weight": q, "weight_scale": s[0, 0].clone(),
            "input_scale": torch.tensor(0.5)}, want


def modelopt_channel(w):
    q, s, want = fp8(w, 1, 0)
    return {"weight": q, "weight_scale": s[:, 0].clone()}, want


def float_channel(w):
    q, s, want = fp8(w, 1, 0, torch.bfloat16)
    return {"weight": q, "weight_scale": s}, want


def int8(w, symmetric):
    q, s, z, want = whole(w, 8, 1, 0, symmetric, torch.bfloat16)
    out = {"weight": (q - 128).to(torch.int8), "weight_scale": s}
    if not symmetric:
        out["weight_zero_point"] = (z - 128).to(torch.int8)
    return out, want


def packed(w, bits, columns, symmetric, scale_type=torch.float32):
    q, s, z, want = whole(w, bits, 1, columns, symmetric, scale_type)
    out = {"weight_packed": words(q, bits), "weight_scale": s,
           "weight_shape": torch.tensor(w.shape)}
    if not symmetric:
        out["weight_zero_point"] = words(z.T, bits).T.contiguous()
    return out, want


def gptq(w, bits, columns, less_one, symmetric, moves=False):
    order = torch.randperm(w.shape[1]) if moves else None
    q, s, z, want = whole(w, bits, 1, columns, symmetric, torch.float16,
                          order)
    group = torch.arange(w.shape[1]) // (columns or w.shape[1])
    if moves:
        group = group[order.argsort()]
    z = (z - less_one) & (2 ** bits - 1)
    return {"qweight": words(q, bits).T.contiguous(),
            "qzeros": words(z.T, bits), "scales": s.T.contiguous(),
            "g_idx": group.int()}, want


def awq(w):
    q, s, z, want = whole(w, 4, 1, 8, False, torch.float16)
    return {"qweight": words(q.T, 4, AWQ_PLACES),
            "qzeros": words(z.T, 4, AWQ_PLACES),
            "scales": s.T.contiguous()}, want


def compressed(form, **weights):
    weights = {"dynamic": False, "symmetric": True, "group_size": None,
               **weights}
    return {"quant_method": "compressed-tensors", "format": form,
            "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": {
                "targets": ["Linear"], "weights": weights,
                "input_activations": None, "output_activations": None}}}


def of_gptq(bits, columns, version="gptq", moves=False):
    return {"quant_method": "gptq", "bits": bits,
            "group_size": columns or -1, "desc_act": moves, "sym": True,
            "checkpoint_format": version}


FORMATS = {
    "fp8-block": (fp8_block, {
        "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
        "weight_block_size": [16, 16]}),
    "fp8-tensor": (fp8_tensor, {
        "quant_method": "fp8", "activation_scheme": "static"}),
    "modelopt": (modelopt_channel, None),
    "float-channel": (float_channel, compressed(
        "float-quantized", num_bits=8, type="float", strategy="channel")),
    "int8": (lambda w: int8(w, True), compressed(
        "int-quantized", num_bits=8, type="int", strategy="channel")),
    "int8-zeros": (lambda w: int8(w, False), compressed(
        "int-quantized", num_bits=8, type="int", strategy="channel",
        symmetric=False)),
    "packed4": (lambda w: packed(w, 4, 8, True, torch.bfloat16), compressed(
        "pack-quantized", num_bits=4, type="int", strategy="group",
        group_size=8)),
    "packed4-zeros": (lambda w: packed(w, 4, 8, False), compressed(
        "pack-quantized", num_bits=4, type="int", strategy="group",
        group_size=8, symmetric=False)),
    "packed8": (lambda w: packed(w, 8, 0, True), compressed(
        "pack-quantized", num_bits=8, type="int", strategy="channel")),
    "gptq4": (lambda w: gptq(w, 4, 8, 1, True), of_gptq(4, 8)),
    "gptq4-order": (lambda w: gptq(w, 4, 8, 0, False, True),
                    of_gptq(4, 8, "gptq_v2", True)),
    "gptq8": (lambda w: gptq(w, 8, 0, 1, False), of_gptq(8, 0)),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": 8,
                  "version": "gemm", "zero_point": True,
                  "modules_to_not_convert": None}),
}


# ---- the package ----

def check(name, config, tensors, want):
    """Holds a module of compressed-tensors to what the package makes of it."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme
    if config is None or "config_groups" not in config:
        return
    scheme = QuantizationScheme(**config["config_groups"]["group_0"])
    theirs = BaseCompressor.get_value_from_registry(config["format"])
    state = {k: v.float() if "scale" in k else v for k, v in tensors.items()}
    got = theirs.decompress(state, scheme)["weight"]
    assert torch.equal(got, want), name


def main():
    torch.manual_seed(26)
    config = LlamaConfig(vocab_size=20, hidden_size=16, intermediate_size=24,
                         num_hidden_layers=1, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=4,
                         max_position_embeddings=16,
                         tie_word_embeddings=False, dtype="float32",
                         initializer_range=0.4)
    model = LlamaForCausalLM(config).state_dict()
    for name, (quantise, said) in FORMATS.items():
        folder = os.path.join(HERE, "quantised", name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        tensors, wants = {}, {}
        for key, w in model.items():
            if not key.endswith("_proj.weight"):
                tensors[key] = w.bfloat16()
                continue
            parts, want = quantise(w)
            check(name, said, parts, want)
            wants[key] = want.contiguous()
            for tail, part in parts.items():
                tensors[key[:-len("weight")] + tail] = part
        save_file(tensors, os.path.join(folder, "model.safetensors"),
                  {"format": "pt"})
        save_file(wants, os.path.join(folder, "want.safetensors"))
        fields = config.to_dict()
        fields["architectures"] = ["LlamaForCausalLM"]
        if said:
            fields["quantization_config"] = said
        else:
            with open(os.path.join(folder, "hf_quant_config.json"), "w",
                      encoding="utf-8") as f:
                json.dump({"producer": {"name": "modelopt"}, "quantization": {
                    "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN",
                    "kv_cache_quant_algo": None,
                    "exclude_modules": ["lm_head"]}}, f, indent=2)
        fields = {k: v for k, v in fields.items() if v is not None}
        with open(os.path.join(folder, "config.json"), "w",
                  encoding="utf-8") as f:
            json.dump(fields, f, indent=2, sort_keys=True)
            f.write("\n")


if __name__ == "__main__":
    main()
