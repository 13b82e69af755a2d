#!/usr/bin/env python3
"""Makes the folders of gguf/: small models as llama.cpp stores them.

    pip install numpy gguf
    python3 tests/interop/make_gguf.py

Each folder has config.json, model.gguf, and model.safetensors with what is to
be read of that, in f32: the package gguf quantises, and widens again.  Rows of
queries and keys of the family llama lie as convert_hf_to_gguf.py puts them.
Test: tests/cli/run/gguf.sh.
"""
import json
import os
import struct

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

HERE = os.path.dirname(os.path.abspath(__file__))
HIDDEN, HEADS, KV, HD, FFN, VOCAB = 32, 4, 2, 8, 32, 32


def turned(w, heads):
    """The halves of each head's rows in turns."""
    order = np.arange(w.shape[0]).reshape(heads, 2, -1)
    return w[order.transpose(0, 2, 1).ravel()]


def tensors(family, layers):
    """Names of llama.cpp and of Hugging Face, shapes, types, heads."""
    yield "token_embd.weight", "model.embed_tokens.weight", \
        (VOCAB, HIDDEN), T.F16, 0
    yield "output_norm.weight", "model.norm.weight", (HIDDEN,), T.F32, 0
    yield "output.weight", "lm_head.weight", (VOCAB, HIDDEN), T.Q8_0, 0
    for i in range(layers):
        a, b = f"blk.{i}.", f"model.layers.{i}."
        yield a + "attn_norm.weight", b + "input_layernorm.weight", \
            (HIDDEN,), T.F32, 0
        for x, heads, kind in (("q", HEADS, T.Q8_0), ("k", KV, T.F16),
                               ("v", KV, T.BF16)):
            turns = 0 if x == "v" or family != "llama" else heads
            yield a + f"attn_{x}.weight", b + f"self_attn.{x}_proj.weight", \
                (heads * HD, HIDDEN), kind, turns
            yield a + f"attn_{x}.bias", b + f"self_attn.{x}_proj.bias", \
                (heads * HD,), T.F32, turns
        yield a + "attn_output.weight", b + "self_attn.o_proj.weight", \
            (HIDDEN, HEADS * HD), T.Q8_0, 0
        if family == "llama":
            yield a + "attn_output.bias", b + "self_attn.o_proj.bias", \
                (HIDDEN,), T.F32, 0
        yield a + "ffn_norm.weight", b + "post_attention_layernorm.weight", \
            (HIDDEN,), T.F32, 0
        for x, y in (("gate", "gate"), ("up", "up"), ("down", "down")):
            yield a + f"ffn_{x}.weight", b + f"mlp.{y}_proj.weight", \
                (HIDDEN, FFN) if x == "down" else (FFN, HIDDEN), T.Q8_0, 0


def save(path, values):
    """A .safetensors file of f32."""
    header, at = {}, 0
    for name, v in values.items():
        header[name] = {"dtype": "F32", "shape": list(v.shape),
                        "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for v in values.values():
            f.write(v.astype("<f4").tobytes())


def make(family, layers):
    folder = os.path.join(HERE, "gguf", family)
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(5)
    w = gguf.GGUFWriter(os.path.join(folder, "model.gguf"), family)
    w.add_context_length(64)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV)
    w.add_rope_freq_base(10000.0)
    w.add_token_list([f"t{i}" for i in range(VOCAB)])
    w.add_token_scores([0.5] * VOCAB)
    w.add_add_bos_token(False)
    want = {}
    for theirs, ours, shape, kind, turns in tensors(family, layers):
        v = (rng.standard_normal(shape) * 0.3).astype(np.float32)
        if theirs.endswith("norm.weight"):
            v += 1
        stored = turned(v, turns) if turns else v
        raw = gguf.quants.quantize(stored, kind)
        w.add_tensor(theirs, raw, raw_dtype=kind)
        wide = gguf.quants.dequantize(raw, kind).reshape(shape)
        back = np.empty_like(wide)
        if turns:       # where each row of the file was
            rows = turned(np.arange(shape[0]), turns)
            back[rows] = wide
        else:
            back = wide
        want[ours] = np.ascontiguousarray(back)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    save(os.path.join(folder, "model.safetensors"), want)
    config = {
        "architectures": ["LlamaForCausalLM" if family == "llama"
                          else "Qwen2ForCausalLM"],
        "model_type": family, "hidden_act": "silu", "hidden_size": HIDDEN,
        "intermediate_size": FFN, "num_hidden_layers": layers,
        "num_attention_heads": HEADS, "num_key_value_heads": KV,
        "max_position_embeddings": 64, "vocab_size": VOCAB,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "torch_dtype": "float32"}
    if family == "llama":
        config["attention_bias"] = True
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")


make("llama", 2)
make("qwen2", 1)
