#!/usr/bin/env python3
"""Makes the folders of tiny/: for each family a tiny random model
that the transformers library made and ran in float64.

    pip install torch transformers safetensors
    python3 tests/interop/make_fixtures.py [FAMILY..]
    python3 tests/interop/make_fixtures.py --generated [FAMILY..]

A folder has config.json and model.safetensors as save_pretrained writes them
(F32), tokens-0.bin and tokens-1.bin (u16, 9 tokens each), and
expected.safetensors: loss and logits, and under grad.NAME the gradient of each
tensor of the file.  tests/unit/frontend/t-import-families.c holds the
interpreter to them, tests/cli/run/interop.sh compiled plans.

generated.txt, which --generated makes anew by itself, has lines of a prompt
and of what generate() continues it with in float32, the likeliest token each
time; a letter is a token, from a on.  tests/cli/run/served-families.sh holds
served plans to it.
"""
import json
import os
import shutil
import sys

import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
SEQ, BATCH, VOCAB = 8, 2, 20
SMALL = dict(vocab_size=VOCAB, hidden_size=8, intermediate_size=12,
             num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=SEQ,
             bos_token_id=1, eos_token_id=2, pad_token_id=None)
MOE = dict(SMALL, moe_intermediate_size=6, num_experts_per_tok=2)
MLA = dict(MOE, num_key_value_heads=4, n_routed_experts=8, n_group=4,
           topk_group=2, q_lora_rank=6, kv_lora_rank=4, qk_nope_head_dim=2,
           qk_rope_head_dim=4, v_head_dim=3, n_shared_experts=1,
           first_k_dense_replace=1)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
            original_max_position_embeddings=4)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0,
              low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8)

FAMILIES = {
    "gpt2": dict(model_type="gpt2", vocab_size=VOCAB, n_embd=8, n_layer=2,
                 n_head=2, n_positions=SEQ, bos_token_id=1, eos_token_id=1),
    "gpt_neox": dict(model_type="gpt_neox", vocab_size=VOCAB, hidden_size=16,
                     intermediate_size=12, num_hidden_layers=2,
                     num_attention_heads=2, max_position_embeddings=SEQ,
                     rope_parameters=dict(rope_type="default",
                                          rope_theta=10000.0,
                                          partial_rotary_factor=0.5),
                     bos_token_id=1, eos_token_id=2),
    "bloom": dict(model_type="bloom", vocab_size=VOCAB, hidden_size=18,
                  n_layer=2, n_head=6, seq_length=SEQ, bos_token_id=1,
                  eos_token_id=2, tie_word_embeddings=False),
    "mpt": dict(model_type="mpt", vocab_size=VOCAB, d_model=12, n_layers=2,
                n_heads=6, max_seq_len=SEQ, expansion_ratio=4,
                attn_config=dict(softmax_scale=0.4)),
    "llama": dict(SMALL, model_type="llama"),
    "llama3": dict(SMALL, model_type="llama", rope_parameters=LLAMA3,
                   head_dim=4, tie_word_embeddings=True),
    "mistral": dict(SMALL, model_type="mistral", sliding_window=3,
                    head_dim=4),
    "mixtral": dict(SMALL, model_type="mixtral", num_local_experts=4,
                    num_experts_per_tok=2, sliding_window=None),
    "qwen2": dict(SMALL, model_type="qwen2"),
    "qwen3": dict(SMALL, model_type="qwen3", head_dim=4),
    # windows from a layer on
    "qwen3_window": dict(SMALL, model_type="qwen3", head_dim=4,
                         num_hidden_layers=3, use_sliding_window=True,
                         sliding_window=3, max_window_layers=1),
    "qwen2_moe": dict(MOE, model_type="qwen2_moe", num_experts=4,
                      shared_expert_intermediate_size=5),
    # with the loss that balances experts
    "mixtral_aux": dict(SMALL, model_type="mixtral", num_local_experts=4,
                        num_experts_per_tok=2, sliding_window=None,
                        output_router_logits=True, router_aux_loss_coef=0.5),
    "qwen2_moe_aux": dict(MOE, model_type="qwen2_moe", num_experts=4,
                          shared_expert_intermediate_size=5,
                          num_hidden_layers=3, use_sliding_window=True,
                          sliding_window=3, max_window_layers=3,
                          output_router_logits=True,
                          router_aux_loss_coef=0.25),
    "qwen3_moe": dict(MOE, model_type="qwen3_moe", num_experts=4, head_dim=4,
                      norm_topk_prob=True),
    "deepseek_v3": dict(MLA, model_type="deepseek_v3"),
    "deepseek_v2": dict(MLA, model_type="deepseek_v2", q_lora_rank=None,
                        topk_method="greedy", n_group=None, topk_group=None,
                        rope_parameters=dict(YARN, mscale=0.707,
                                             mscale_all_dim=0.707)),
    "deepseek_v3_yarn": dict(MLA, model_type="deepseek_v3",
                             rope_parameters=dict(YARN, mscale=1.0,
                                                  mscale_all_dim=1.0)),
    "gemma2": dict(SMALL, model_type="gemma2", head_dim=4, sliding_window=3,
                   num_hidden_layers=3, attn_logit_softcapping=2.0,
                   final_logit_softcapping=3.0, query_pre_attn_scalar=5,
                   tie_word_embeddings=True),
    "gemma3": dict(SMALL, model_type="gemma3_text", head_dim=4,
                   sliding_window=3, num_hidden_layers=7, rms_norm_eps=0.1,
                   query_pre_attn_scalar=5, tie_word_embeddings=True,
                   rope_parameters=dict(
                       full_attention=dict(rope_type="linear", factor=2.0,
                                           rope_theta=1000000.0),
                       sliding_attention=dict(rope_type="default",
                                              rope_theta=10000.0))),
    "gpt_oss": dict(SMALL, model_type="gpt_oss", head_dim=4,
                    num_local_experts=4, num_experts_per_tok=2,
                    sliding_window=3,
                    rope_parameters=dict(YARN, truncate=False)),
    "phi3_long": dict(SMALL, model_type="phi3", hidden_size=16,
                      original_max_position_embeddings=4,
                      rope_parameters=dict(
                          rope_type="longrope", rope_theta=10000.0,
                          short_factor=[1.0, 1.5], long_factor=[1.25, 3.0])),
    "qwen3_yarn": dict(SMALL, model_type="qwen3", head_dim=8,
                       rope_parameters=YARN),
    "gemma": dict(SMALL, model_type="gemma", head_dim=4),
    "phi3": dict(SMALL, model_type="phi3", sliding_window=4),
    "olmo2": dict(SMALL, model_type="olmo2"),
    "granite": dict(SMALL, model_type="granite", embedding_multiplier=3.0,
                    logits_scaling=2.0, residual_multiplier=0.5,
                    attention_multiplier=0.3),
    "starcoder2": dict(SMALL, model_type="starcoder2", sliding_window=3),
}


def config_of(fields):
    fields = dict(fields)
    return transformers.AutoConfig.for_model(fields.pop("model_type"),
                                             **fields)


def randomize(model, kind):
    """Larger weights than at the start of training, so that each counts."""
    for name, p in model.state_dict().items():
        if not p.is_floating_point() or "inv_freq" in name:
            continue
        p.copy_(torch.randn(p.shape) * (0.4 if p.dim() > 1 else 0.2))
        if "norm" in name or ".ln_" in name:
            # Gemma's norms multiply by 1 + weight
            if name.endswith("weight") and "gemma" not in kind:
                p.add_(1.0)


class Float64:
    """Within it, what transformers computes in float32 is float64."""

    def __enter__(self):
        self.kept = torch.float32, torch.float, torch.Tensor.float
        torch.float32 = torch.float = torch.float64
        torch.Tensor.float = torch.Tensor.double
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *_):
        torch.float32, torch.float, torch.Tensor.float = self.kept
        torch.set_default_dtype(torch.float32)


def run_each(model, tokens):
    """The mean loss and the logits of sequences that are each a batch of their
    own, since the loss that balances experts is no mean over sequences."""
    loss, logits = 0.0, []
    for row in tokens:
        out = model(row[None, :SEQ], use_cache=False)
        loss = loss + torch.nn.functional.cross_entropy(
            out.logits[0], row[1:]) / BATCH
        if getattr(out, "aux_loss", None) is not None:
            loss = loss + model.router_aux_loss_coef * out.aux_loss / BATCH
        logits.append(out.logits)
    return loss, torch.cat(logits)


def run(small, config, tokens):
    """Loss, logits and gradients in float64, of a model in float32."""
    with Float64():
        config.dtype = torch.float64
        config._attn_implementation = "eager"
        config._experts_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(config)
        model.load_state_dict(small.state_dict())
        model.eval()
        loss, logits = run_each(model, tokens)
        loss.backward()
    return model, loss.detach(), logits.detach()


def float32_error(small, model, tokens):
    """How far the gradients of a run in float32 are off, at most."""
    small.eval()
    run_each(small, tokens)[0].backward()
    worst = 0.0
    for p, q in zip(small.parameters(), model.parameters()):
        if q.grad is not None and q.grad.abs().max() > 0:
            off = (p.grad - q.grad).abs().max() / q.grad.abs().max()
            worst = max(worst, off.item())
    return worst


def draw(name, seed):
    """A random model, its float64 twin with gradients, and what they ran."""
    torch.manual_seed(seed)
    config = config_of(FAMILIES[name])
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    small = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        randomize(small, config.model_type)
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ + 1))
    model, loss, logits = run(small, config_of(FAMILIES[name]), tokens)
    return small, model, loss, logits, tokens


def make(name):
    folder = os.path.join(HERE, "tiny", name)
    shutil.rmtree(folder, ignore_errors=True)
    # of a badly conditioned model float32 says nothing, whoever computes it
    for seed in range(100):
        small, model, loss, logits, tokens = draw(name, seed)
        if float32_error(small, model, tokens) < 4e-6:
            break
    small.save_pretrained(folder)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.grad if p.grad is not None else torch.zeros_like(p))
    model = model.float()
    model.save_pretrained(folder + "/grads")
    out = {"grad." + k: v.float() for k, v in
           load_file(folder + "/grads/model.safetensors").items()}
    shutil.rmtree(folder + "/grads")
    out["loss"] = loss.double()
    out["logits"] = logits.float().contiguous()
    save_file(out, folder + "/expected.safetensors")
    for i in range(BATCH):
        tokens[i].numpy().astype(numpy.uint16).tofile(
            folder + "/tokens-%d.bin" % i)
    for extra in ("generation_config.json",):
        if os.path.exists(folder + "/" + extra):
            os.remove(folder + "/" + extra)
    size = sum(os.path.getsize(folder + "/" + f) for f in os.listdir(folder))
    print(name, "seed %d loss %.9f" % (seed, loss.item()), size, "bytes")


def letters(ids):
    return "".join(chr(ord("a") + int(i)) for i in ids)


def is_clear(scores):
    """Whether the likeliest token is so by more than what rounding adds."""
    best = torch.stack(scores)[:, 0].topk(2).values
    return bool((best[:, 0] - best[:, 1] > 1e-3).all())


def continue_greedily(name):
    folder = os.path.join(HERE, "tiny", name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager")
    model.config._experts_implementation = "eager"
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    model.eval()
    torch.manual_seed(1)
    lines = []
    while len(lines) < 4:
        prompt = torch.randint(0, VOCAB, (1, 3))
        out = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
            max_new_tokens=SEQ - 3, return_dict_in_generate=True,
            output_scores=True)
        if is_clear(out.scores):
            lines.append("%s %s\n" % (letters(prompt[0]),
                                      letters(out.sequences[0, 3:])))
    with open(folder + "/generated.txt", "w", encoding="ascii") as f:
        f.writelines(lines)
    print(name, *(line.strip() for line in lines))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    only_generated = sys.argv[1:2] == ["--generated"]
    for each in sys.argv[1 + only_generated:] or FAMILIES:
        if not only_generated:
            make(each)
        continue_greedily(each)
