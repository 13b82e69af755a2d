#!/usr/bin/env python3
"""Makes the folder perplexity/: a trained model, what it is asked, and how well
PyTorch says that it does, as declared and rounded.

    pip install numpy torch transformers safetensors
    python3 tests/interop/make_perplexity.py

Trains a Llama of 0.13 million parameters, whose head is its embedding, on
docs/*.md, in which each byte is two tokens of four bits, and stores it in 16
bits.  Of its feed-forward layers, numbers between the matrices are multiplied
by powers of two, and divided again by the next matrix: which changes nothing,
until that matrix is rounded, whose rows then have numbers of several sizes.  So
forms differ by more than computing does.  expected.txt has, for each form, the
mean loss of the tokens of tokens.bin, in sequences of 128, of which the first
follows nothing; computed by transformers in float64 with weights, or a cache,
that PyTorch rounded.  tests/cli/run/perplexity.sh computes it by programs that
serve.
"""
import glob
import json
import os

import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file

from make_cached import RoundedCache
from make_rounded import is_matrix, rounded

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "perplexity")
DOCS = os.path.join(HERE, "..", "..", "docs")
SEQ, SEQUENCES, STEPS, BATCH = 128, 24, 400, 8
FORMS = ("declared", "weights=int8", "weights=f8e4m3", "weights=int4",
         "cache=f8e4m3", "cache=f8e5m2")
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "vocab_size": 16, "max_position_embeddings": SEQ, "hidden_act": "silu",
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "attention_bias": False,
    "mlp_bias": False, "tie_word_embeddings": True, "torch_dtype": "float32",
    "bos_token_id": None, "eos_token_id": None}


def tokens():
    text = b"".join(open(f, "rb").read() for f in
                    sorted(glob.glob(os.path.join(DOCS, "*.md"))))
    both = numpy.frombuffer(text, dtype=numpy.uint8)
    return numpy.stack([both >> 4, both & 15], axis=1).reshape(-1)


def new_model():
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**{k: v for k, v in CONFIG.items()
                                    if k not in ("architectures",
                                                 "model_type")}))


def train(ids):
    torch.manual_seed(0)
    rng = numpy.random.default_rng(0)
    model = new_model().train()
    how = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.95))
    rate = torch.optim.lr_scheduler.OneCycleLR(how, 4e-3, STEPS)
    for step in range(STEPS):
        at = rng.integers(0, len(ids) - SEQ, BATCH)
        x = torch.from_numpy(numpy.stack([ids[a:a + SEQ] for a in at]).astype(
            "int64"))
        loss = model(x, labels=x).loss
        how.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        how.step()
        rate.step()
        if step % 50 == 49:
            print("step %d: %.4f" % (step + 1, loss.item()), flush=True)
    return {n: w.detach().clone() for n, w in model.state_dict().items()
            if n != "lm_head.weight"}


def spread(weights, most):
    """Powers of two from 1 on, by turns, between `up` and `down`."""
    for name in weights:
        if not name.endswith("up_proj.weight"):
            continue
        down = name.replace("up_proj", "down_proj")
        by = 2.0 ** (torch.arange(weights[name].shape[0]) % (most + 1))
        weights[name] = weights[name] / by[:, None]
        weights[down] = weights[down] * by[None, :]


def loss_of(form, was, ids):
    weights, cached = dict(was), None
    if form.startswith("cache="):
        cached = form[len("cache="):]
    elif form != "declared":
        bits = form[len("weights="):]
        weights = {n: rounded(n, w, bits) if is_matrix(n, w, bits, was) else w
                   for n, w in was.items()}
    model = new_model().eval()
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    model = model.double()
    x = torch.from_numpy(ids.reshape(SEQUENCES, SEQ).astype("int64"))
    with torch.no_grad():
        cache = RoundedCache(cached) if cached else None
        logits = model(x, use_cache=bool(cached), past_key_values=cache).logits
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].reshape(-1, 16), x[:, 1:].reshape(-1)).item()


def main():
    transformers.logging.set_verbosity_error()
    os.makedirs(OUT, exist_ok=True)
    ids = tokens()
    held = len(ids) * 9 // 10
    file = os.path.join(OUT, "model.safetensors")
    weights = train(ids[:held])
    spread(weights, 3)
    save_file({n: w.half().contiguous() for n, w in weights.items()}, file)
    with open(os.path.join(OUT, "config.json"), "w", encoding="utf-8") as f:
        json.dump(CONFIG, f, indent=1)
        f.write("\n")
    at = held + (len(ids) - held) // (SEQUENCES + 1) * numpy.arange(SEQUENCES)
    asked = numpy.concatenate([ids[a:a + SEQ] for a in at])
    asked.astype(numpy.uint8).tofile(os.path.join(OUT, "tokens.bin"))
    was = {n: w.float() for n, w in load_file(file).items()}
    with open(os.path.join(OUT, "expected.txt"), "w", encoding="utf-8") as f:
        for form in FORMS:
            line = "%s %.7f" % (form, loss_of(form, was, asked))
            print(line, flush=True)
            f.write(line + "\n")


if __name__ == "__main__":
    main()
