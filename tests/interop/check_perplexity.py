#!/usr/bin/env python3
"""Perplexity of a program that serves in 8 or 4 bits, beside PyTorch.

    pip install numpy torch transformers
    python3 tests/interop/check_perplexity.py LLMC [STEPS]

Trains a Llama of 0.8 million parameters, whose head is its embedding, on
docs/*.md, in which each byte is two tokens of four bits: a server tells the
chances of at most 20 tokens.  Then programs that store weights as declared, in
int8, f8e4m3 and int4, and caches in f8e4m3 and f8e5m2, are served, and asked what
comes at places that training did not see.  Beside them is what transformers
computes with weights, or a cache, that PyTorch rounded.  Run by hand; exits 1 if
two differ by more than 1%.
"""
import glob
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

import numpy
import torch
import transformers
from safetensors.torch import load_file

from make_cached import RoundedCache
from make_rounded import is_matrix, rounded

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "docs")
SEQ, PLACES, AT_ONCE = 128, 1024, 64
LETTERS = "abcdefghijklmnop"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "vocab_size": 16, "max_position_embeddings": SEQ, "hidden_act": "silu",
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "attention_bias": False,
    "mlp_bias": False, "tie_word_embeddings": True, "torch_dtype": "float32",
    "bos_token_id": None, "eos_token_id": None}


def run(*args):
    p = subprocess.run(args, capture_output=True, text=True, check=False)
    if p.returncode != 0:
        sys.exit("%s: %s" % (" ".join(args), p.stderr))


def tokens():
    text = b"".join(open(f, "rb").read() for f in
                    sorted(glob.glob(os.path.join(DOCS, "*.md"))))
    both = numpy.frombuffer(text, dtype=numpy.uint8)
    return numpy.stack([both >> 4, both & 15], axis=1).reshape(-1)


def write_tokenizer():
    level = {"type": "ByteLevel", "add_prefix_space": False,
             "trim_offsets": True, "use_regex": True}
    with open("tokenizer.json", "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "added_tokens": [], "normalizer": None,
                   "pre_tokenizer": level, "post_processor": None,
                   "decoder": level, "model": {
                       "type": "BPE", "merges": [],
                       "vocab": {c: i for i, c in enumerate(LETTERS)}}}, f)


def train(llmc, ids, steps):
    """Leaves the folder `trained`, for other programs, and model.llm."""
    os.mkdir("config")
    with open("config/config.json", "w", encoding="utf-8") as f:
        json.dump(CONFIG, f)
    ids.astype(numpy.uint16).tofile("train.bin")
    run(llmc, "import", "config", "-o", "model.llm")
    with open("model.llm", encoding="utf-8") as f:
        text = re.sub(r"lr = [0-9e.-]+", "lr = 3e-3", f.read())
    with open("model.llm", "w", encoding="utf-8") as f:
        f.write(text)
    run(llmc, "--target", "cpux1", "-o", "plan", "model.llm")
    run("plan/rank", "train", "--local", "--steps", steps, "--schedule",
        "cosine", "--warmup", "20", "--data", "train.bin", "--checkpoint",
        "saved", "--export", "exported")
    os.rename(glob.glob("exported/step-*")[0], "trained")


def ask(url, prompts):
    body = json.dumps({"prompt": [p.tolist() for p in prompts],
                       "max_tokens": 1, "temperature": 0, "logprobs": 16})
    q = urllib.request.Request(url + "/v1/completions", body.encode(),
                               {"Content-Type": "application/json"})
    with urllib.request.urlopen(q) as f:
        choices = json.load(f)["choices"]
    choices.sort(key=lambda c: c["index"])
    return [c["logprobs"]["top_logprobs"][0] for c in choices]


def ours(llmc, form, prompts, following):
    out = "served-" + form
    more = "" if form == "declared" else "," + form if "=" in form \
        else ",weights=" + form
    run(llmc, "--serve", "--target", "cpux1", "--workload", "prompt=%d,"
        "output=1,context=%d,tokens=64,rows=16,keys=8192,slots=16384%s" %
        (SEQ - 1, SEQ, more), "-o", out, "model.llm")
    p = subprocess.Popen([out + "/rank", "serve", "--local", "--weights",
                          "trained", "--tokenizer", "tokenizer.json",
                          "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        url = None
        while not url:
            line = p.stdout.readline()
            if not line:
                sys.exit("the server of %s ended" % out)
            url = re.search(r"(http://[^ ,]*)/v1", line)
        loss = 0.0
        for i in range(0, PLACES, AT_ONCE):
            all_of = ask(url.group(1), prompts[i:i + AT_ONCE])
            for chances, token in zip(all_of, following[i:i + AT_ONCE]):
                loss -= chances[LETTERS[token]]
    finally:
        p.terminate()
        p.wait()
    return math.exp(loss / PLACES)


def theirs(form, prompts, following):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        "trained", dtype=torch.float32).eval()
    was = load_file("trained/model.safetensors")
    cached = form[len("cache="):] if form.startswith("cache=") else None
    if form != "declared" and not cached:
        model.load_state_dict({
            n: rounded(n, w, form) if is_matrix(n, w, form, was) else w
            for n, w in was.items()}, strict=False)
        model.tie_weights()
    loss = 0.0
    with torch.no_grad():
        for i in range(0, PLACES, AT_ONCE):
            x = torch.from_numpy(prompts[i:i + AT_ONCE].astype("int64"))
            cache = RoundedCache(cached) if cached else None
            logits = model(x, use_cache=bool(cached),
                           past_key_values=cache).logits[:, -1]
            loss += torch.nn.functional.cross_entropy(
                logits, torch.from_numpy(following[i:i + AT_ONCE].astype(
                    "int64")), reduction="sum").item()
    return math.exp(loss / PLACES)


def main():
    llmc = os.path.abspath(sys.argv[1])
    steps = sys.argv[2] if len(sys.argv) > 2 else "300"
    transformers.logging.set_verbosity_error()
    ids = tokens()
    held = len(ids) * 9 // 10
    places = numpy.random.default_rng(0).integers(held + SEQ, len(ids), PLACES)
    prompts = numpy.stack([ids[p - SEQ + 1:p] for p in places])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokenizer()
        train(llmc, ids[:held], steps)
        worst = 0.0
        for form in ("declared", "int8", "f8e4m3", "int4", "cache=f8e4m3",
                     "cache=f8e5m2"):
            a = ours(llmc, form, prompts, ids[places])
            b = theirs(form, prompts, ids[places])
            worst = max(worst, abs(a / b - 1))
            print("%-12s llmc %.5f PyTorch %.5f, %+.4f%%" % (
                form, a, b, 100 * (a / b - 1)), flush=True)
        os.chdir(HERE)
    return worst > 0.01


if __name__ == "__main__":
    sys.exit(main())
