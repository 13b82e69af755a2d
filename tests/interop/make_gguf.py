#!/usr/bin/env python3
"""Makes the folders of gguf/: small models as llama.cpp stores them.

    pip install numpy gguf
    python3 tests/interop/make_gguf.py [MODEL OF tiny/..]

Each folder has config.json, model.gguf (gpt_neox has it in three parts), and
model.safetensors with what is to be read of that, in f32: the package gguf
quantises, and widens again.  Rows of queries and keys lie as
convert_hf_to_gguf.py puts them.
The folder types has a tensor of each type whose numbers lie in blocks, of drawn
bytes, which the package widens.  Tests: tests/unit/data/t-gguf.c, and
tests/cli/run/gguf.sh for the models.
"""
import json
import os
import struct
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

HERE = os.path.dirname(os.path.abspath(__file__))
HIDDEN, HEADS, KV, HD, FFN, VOCAB, EXPERTS = 32, 4, 2, 8, 32, 32, 3
THETA = 500000.0
# llama.cpp's name of a family
ARCHITECTURES = {"mixtral": "llama", "qwen3_moe": "qwen3moe"}
CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM",
           "mixtral": "MixtralForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}
# of families with experts, of the router and of an expert's matrices
MOE = {
    "mixtral": ("block_sparse_moe.gate", "block_sparse_moe.experts.%d.",
                ("w1", "w3", "w2")),
    "qwen3_moe": ("mlp.gate", "mlp.experts.%d.",
                  ("gate_proj", "up_proj", "down_proj"))}


def turned(w, heads):
    """The halves of each head's rows in turns."""
    order = np.arange(w.shape[0]).reshape(heads, 2, -1)
    return w[order.transpose(0, 2, 1).ravel()]


def tensors(family, layers):
    """Names of llama.cpp and of Hugging Face, shapes, types, heads."""
    turns = ARCHITECTURES.get(family, family) == "llama"
    biases = family in ("llama", "qwen2")
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
            of_heads = heads if turns and x != "v" else 0
            yield a + f"attn_{x}.weight", b + f"self_attn.{x}_proj.weight", \
                (heads * HD, HIDDEN), kind, of_heads
            if biases:
                yield a + f"attn_{x}.bias", b + f"self_attn.{x}_proj.bias", \
                    (heads * HD,), T.F32, of_heads
            if family == "qwen3_moe" and x != "v":
                yield a + f"attn_{x}_norm.weight", \
                    b + f"self_attn.{x}_norm.weight", (HD,), T.F32, 0
        yield a + "attn_output.weight", b + "self_attn.o_proj.weight", \
            (HIDDEN, HEADS * HD), T.Q8_0, 0
        if family == "llama":
            yield a + "attn_output.bias", b + "self_attn.o_proj.bias", \
                (HIDDEN,), T.F32, 0
        yield a + "ffn_norm.weight", b + "post_attention_layernorm.weight", \
            (HIDDEN,), T.F32, 0
        yield from mlp(family, a, b)


def mlp(family, a, b):
    if family not in MOE:
        for x in ("gate", "up", "down"):
            yield a + f"ffn_{x}.weight", b + f"mlp.{x}_proj.weight", \
                (HIDDEN, FFN) if x == "down" else (FFN, HIDDEN), T.Q8_0, 0
        return
    gate, expert, names = MOE[family]
    yield a + "ffn_gate_inp.weight", b + gate + ".weight", \
        (EXPERTS, HIDDEN), T.F32, 0
    for x, y, kind in zip(("gate", "up", "down"), names,
                          (T.Q4_0, T.F16, T.Q5_1)):
        yield a + f"ffn_{x}_exps.weight", b + expert + y + ".weight", \
            (EXPERTS,) + ((HIDDEN, FFN) if x == "down" else (FFN, HIDDEN)), \
            kind, 0


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


def llama3():
    """What Llama 3.1 divides frequencies by, as convert_hf_to_gguf.py has it."""
    out = []
    for i in range(0, HD, 2):
        wave = 2 * np.pi * THETA ** (i / HD)
        smooth = min(max((8192 / wave - 1) / (4 - 1), 0), 1)
        out.append(1 / ((1 - smooth) / 8 + smooth))
    return np.array(out, np.float32)


def add_words(w):
    """A tokenizer of few words, with which texts begin with <s>."""
    words = ["<unk>", "<s>", "</s>", "▁"] + list("abcdefghijklmnopqrstuvwxyz")
    words += ["he", "▁t"]
    w.add_tokenizer_model("llama")
    w.add_token_list(words)
    w.add_token_scores([-float(i) for i in range(VOCAB)])
    w.add_token_types([2, 3, 3] + [1] * (VOCAB - 3))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)


def make(family, layers):
    folder = os.path.join(HERE, "gguf", family)
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(5)
    w = gguf.GGUFWriter(os.path.join(folder, "model.gguf"),
                        ARCHITECTURES.get(family, family))
    w.add_context_length(64)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV)
    w.add_block_count(layers)
    w.add_embedding_length(HIDDEN)
    w.add_feed_forward_length(FFN)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(THETA if family == "llama" else 10000.0)
    w.add_rope_dimension_count(HD)
    w.add_vocab_size(VOCAB)
    if family in MOE:
        w.add_expert_count(EXPERTS)
        w.add_expert_used_count(2)
    if family == "qwen3_moe":
        w.add_expert_feed_forward_length(FFN)
        w.add_key_length(HD)
        w.add_value_length(HD)
    add_words(w)
    want = {}
    if family == "llama":
        want["rope_freqs.weight"] = llama3()
        w.add_tensor("rope_freqs.weight", llama3())
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
        if "%d" in ours:
            for e in range(EXPERTS):
                want[ours % e] = np.ascontiguousarray(back[e])
        else:
            want[ours] = np.ascontiguousarray(back)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    save(os.path.join(folder, "model.safetensors"), want)
    config = {
        "architectures": [CLASSES[family]],
        "model_type": family, "hidden_act": "silu", "hidden_size": HIDDEN,
        "intermediate_size": FFN, "num_hidden_layers": layers,
        "num_attention_heads": HEADS, "num_key_value_heads": KV,
        "max_position_embeddings": 64, "vocab_size": VOCAB,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "torch_dtype": "float32"}
    if family == "llama":
        config.update(attention_bias=True, rope_theta=THETA, rope_scaling={
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192, "rope_type": "llama3"})
    elif family == "mixtral":
        config.update(num_local_experts=EXPERTS, num_experts_per_tok=2)
    elif family == "qwen3_moe":
        config.update(num_experts=EXPERTS, num_experts_per_tok=2, head_dim=HD,
                      moe_intermediate_size=FFN, norm_topk_prob=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")


# Of the models of tiny/ those that llama.cpp has, and what it calls them.
TINY = {"gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3",
        "granite": "granite", "olmo2": "olmo2", "qwen2_moe": "qwen2moe",
        "phi3": "phi3", "phi3_long": "phi3", "starcoder2": "starcoder2",
        "deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2",
        "deepseek_v3_yarn": "deepseek2", "gpt_oss": "gpt-oss",
        "gpt2": "gpt2", "gpt_neox": "gptneox"}
# Those that are written as several files, and most tensors of each.
PARTS = {"gpt_neox": 11}


def load(path):
    """The tensors of a .safetensors file of f32."""
    with open(path, "rb") as f:
        data = f.read()
    n, = struct.unpack_from("<Q", data)
    header, out = json.loads(data[8:8 + n]), {}
    for name, x in header.items():
        if name != "__metadata__":
            at, end = x["data_offsets"]
            out[name] = np.frombuffer(data[8 + n + at:8 + n + end],
                                      "<f4").reshape(x["shape"])
    return out


def add_gpt_sizes(w, c, arch):
    if arch == "gpt2":
        w.add_context_length(c["n_positions"])
        w.add_embedding_length(c["n_embd"])
        w.add_block_count(c["n_layer"])
        w.add_feed_forward_length(4 * c["n_embd"])
        w.add_head_count(c["n_head"])
        w.add_layer_norm_eps(c["layer_norm_epsilon"])
        return
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_rope_dimension_count(int(
        c["rope_parameters"]["partial_rotary_factor"] *
        c["hidden_size"] // c["num_attention_heads"]))
    w.add_head_count(c["num_attention_heads"])
    w.add_parallel_residual(c["use_parallel_residual"])
    w.add_layer_norm_eps(c["layer_norm_eps"])


def add_sizes(w, c, arch):
    """The keys that convert_hf_to_gguf.py writes of a config.json."""
    if arch in ("gpt2", "gptneox"):
        add_gpt_sizes(w, c, arch)
        return
    rope = c["rope_parameters"]
    rope = rope.get("full_attention", rope)
    hd = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    if arch == "starcoder2":
        w.add_layer_norm_eps(c["norm_epsilon"])
    else:
        w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    if arch[:5] == "gemma" or arch == "gpt-oss":
        w.add_key_length(hd)
        w.add_value_length(hd)
    if arch != "gemma":
        w.add_rope_freq_base(rope["rope_theta"])
    if arch == "deepseek2":
        add_deepseek(w, c, rope)
    if arch == "gpt-oss":
        w.add_rope_dimension_count(hd)
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(
            rope["original_max_position_embeddings"])
        w.add_sliding_window(c["sliding_window"])
        w.add_expert_count(c["num_local_experts"])
        w.add_expert_used_count(c["num_experts_per_tok"])
        w.add_expert_feed_forward_length(c["intermediate_size"])
    if rope["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(rope["factor"])
    if arch in ("gemma2", "gemma3"):
        w.add_sliding_window(c["sliding_window"])
        c["query_pre_attn_scalar"] = hd     # as no key says it
    if arch == "gemma2":
        w.add_attn_logit_softcapping(c["attn_logit_softcapping"])
        w.add_final_logit_softcapping(c["final_logit_softcapping"])
    elif arch == "granite":
        w.add_attention_scale(c["attention_multiplier"])
        w.add_embedding_scale(c["embedding_multiplier"])
        w.add_residual_scale(c["residual_multiplier"])
        w.add_logit_scale(c["logits_scaling"])
    elif arch == "qwen2moe":
        w.add_expert_count(c["num_experts"])
        w.add_expert_used_count(c["num_experts_per_tok"])
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
        w.add_expert_shared_feed_forward_length(
            c["shared_expert_intermediate_size"])
    elif arch == "phi3":
        w.add_rope_dimension_count(hd)
        w.add_rope_scaling_orig_ctx_len(c["original_max_position_embeddings"])
        w.add_sliding_window(c["sliding_window"] or 0)
        if rope["rope_type"] == "longrope":
            scale, start = c["max_position_embeddings"], \
                c["original_max_position_embeddings"]
            w.add_rope_scaling_attn_factors(np.sqrt(
                1 + np.log(scale / start) / np.log(start)))
    elif arch == "starcoder2":
        c["sliding_window"] = None          # as no key says it


def add_deepseek(w, c, rope):
    """Files of V2 are older ones here, which have kv_b_proj as it is."""
    v3 = c["model_type"] == "deepseek_v3"
    keys = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
    w.add_leading_dense_block_count(c["first_k_dense_replace"])
    if c["q_lora_rank"]:
        w.add_q_lora_rank(c["q_lora_rank"])
    w.add_kv_lora_rank(c["kv_lora_rank"])
    if v3:
        w.add_key_length(c["kv_lora_rank"] + c["qk_rope_head_dim"])
        w.add_value_length(c["kv_lora_rank"])
        w.add_key_length_mla(keys)
        w.add_value_length_mla(c["v_head_dim"])
        w.add_expert_group_count(c["n_group"])
        w.add_expert_group_used_count(c["topk_group"])
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        w.add_expert_weights_norm(c["norm_topk_prob"])
    else:
        w.add_key_length(keys)
        w.add_value_length(c["v_head_dim"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_expert_count(c["n_routed_experts"])
    w.add_expert_used_count(c["num_experts_per_tok"])
    w.add_expert_shared_count(c["n_shared_experts"])
    w.add_expert_weights_scale(c["routed_scaling_factor"])
    w.add_rope_dimension_count(c["qk_rope_head_dim"])
    if rope["rope_type"] == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(
            rope["original_max_position_embeddings"])
        w.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])


def split_heads(values, c):
    """Keys and values of kv_b_proj, as newer files have them."""
    out, keys = {}, c["qk_nope_head_dim"]
    for name, v in values.items():
        if name.endswith("kv_b_proj.weight"):
            v = v.reshape(c["num_attention_heads"], -1, v.shape[-1])
            out[name.replace("kv_b_proj", "k_b_proj")] = \
                v[:, :keys].transpose(0, 2, 1)
            out[name.replace("kv_b_proj", "v_b_proj")] = v[:, keys:]
        elif name.endswith("e_score_correction_bias"):
            out[name[:-5] + ".bias"] = v
        else:
            out[name] = v
    return out


def split_experts(values):
    """Gates and what is gated apart, and matrices turned."""
    out = {}
    for name, v in values.items():
        if ".gate_up_proj" in name:
            tail = ".bias" if name.endswith("_bias") else ".weight"
            for i, part in enumerate(("gate_proj", "up_proj")):
                x = v[..., i::2]
                out[name.split("gate_up_proj")[0] + part + tail] = \
                    x if tail == ".bias" else x.transpose(0, 2, 1)
        elif name.endswith("down_proj_bias"):
            out[name[:-5] + ".bias"] = v
        elif name.endswith("experts.down_proj"):
            out[name + ".weight"] = v.transpose(0, 2, 1)
        elif name.endswith("sinks"):
            out[name + ".weight"] = v
        else:
            out[name] = v
    return out


def stored_as(arch, name, v, c):
    """What a tensor is in the file, in f32."""
    if arch[:5] == "gemma" and name.endswith("norm.weight"):
        return v + np.float32(1)
    if arch == "granite" and ".q_proj." in name:
        return turned(v, c["num_attention_heads"])
    if arch == "granite" and ".k_proj." in name:
        return turned(v, c["num_key_value_heads"])
    if arch == "gpt2" and v.ndim == 2 and ".h." in name:
        return v.T
    if arch == "gptneox" and ".query_key_value." in name:
        heads = c["num_attention_heads"]
        v = v.reshape(heads, 3, v.shape[0] // heads // 3, -1)
        v = v.transpose(1, 0, 2, 3).reshape(-1, v.shape[-1])
        return v if name.endswith("weight") else v[:, 0]
    return v[0] if name.endswith("shared_expert_gate.weight") else v


def stack_experts(values):
    """Those of all experts of a layer as one tensor, as the package names it."""
    out = {}
    for name, v in values.items():
        part = name.split(".experts.")
        if len(part) == 2:
            name = part[0] + ".experts." + part[1].split(".", 1)[1]
            out.setdefault(name, []).append(v)
        else:
            out[name] = v
    return {k: np.stack(v) if isinstance(v, list) else v
            for k, v in out.items()}


def make_tiny(name, arch):
    """A model of tiny/, with the names that the package gguf has for it."""
    folder = os.path.join(HERE, "gguf", name)
    os.makedirs(folder, exist_ok=True)
    tiny = os.path.join(HERE, "tiny", name)
    with open(os.path.join(tiny, "config.json")) as f:
        c = json.load(f)
    values = load(os.path.join(tiny, "model.safetensors"))
    want = dict(values)
    w = gguf.GGUFWriter(os.path.join(folder, "model.gguf"), arch,
                        split_max_tensors=PARTS.get(name, 0))
    add_sizes(w, c, arch)
    kind = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    names = gguf.get_tensor_name_map(
        kind, c.get("num_hidden_layers") or c["n_layer"])
    parts = values
    if name[:11] == "deepseek_v3":
        parts = split_heads(values, c)
    elif name == "gpt_oss":
        parts = split_experts(values)
    parts = {k: stored_as(arch, k, v, c) for k, v in parts.items()}
    if name != "gpt_oss":
        parts = stack_experts(parts)
    for k, v in parts.items():
        w.add_tensor(names.get_name(k, (".weight", ".bias")),
                     np.ascontiguousarray(v))
    for x in ("long", "short"):
        if x + "_factor" in c.get("rope_parameters", {}):
            v = np.array(c["rope_parameters"][x + "_factor"], np.float32)
            w.add_tensor(f"rope_factors_{x}.weight", v)
            want[f"rope_factors_{x}.weight"] = v
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    if arch[:5] == "gemma":     # one more and one less is rounded
        want = {k: stored_as(arch, k, v, c) - np.float32(1)
                if k.endswith("norm.weight") else v for k, v in want.items()}
    save(os.path.join(folder, "model.safetensors"), want)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(c, f, indent=1)
        f.write("\n")


# Types, and at which bytes of a block a scale in f16 lies.
TYPES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2],
    T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [],
    T.TQ1_0: [52], T.TQ2_0: [64]}


def make_types():
    folder = os.path.join(HERE, "gguf", "types")
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(6)
    w = gguf.GGUFWriter(os.path.join(folder, "model.gguf"), "qwen2")
    want = {}
    for kind, scales in TYPES.items():
        numbers, size = gguf.GGML_QUANT_SIZES[kind]
        raw = rng.integers(0, 256, (2, 256 // numbers, size), np.uint8)
        for at in scales:
            f = rng.standard_normal(raw.shape[:2] + (1,)) * 0.01
            raw[:, :, at:at + 2] = f.astype("<f2").view(np.uint8)
        raw = raw.reshape(2, -1)
        name = kind.name.lower()
        w.add_tensor(name, raw, raw_dtype=kind)
        want[name] = gguf.quants.dequantize(raw, kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    save(os.path.join(folder, "model.safetensors"), want)


if sys.argv[1:]:                # only some of the models of tiny/
    for each in sys.argv[1:]:
        make_tiny(each, TINY[each])
    sys.exit()
make("llama", 2)
make("qwen2", 1)
make("mixtral", 1)
make("qwen3_moe", 1)
for tiny, arch in TINY.items():
    make_tiny(tiny, arch)
make_types()
