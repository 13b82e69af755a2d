#!/usr/bin/env python3
"""Makes the files of rounded/: weights of tiny/ as PyTorch rounds them.

    pip install torch safetensors
    python3 tests/interop/make_rounded.py

Each matrix of a layer, but what chooses experts and what keys and values are
made of latents by, is divided by a scale of each
row, rounded to 8 bits by PyTorch, and multiplied again; in int8 so is the head,
and an embedding that is the head.  In int4 a matrix of a layer has a scale, a
bf16, for each 128 of a row, if those are whole; all others are int8.  What a model computes
with these is what a program that serves computes with weights that it rounds
itself: tests/cli/run/served-rounded.sh.
"""
import os
import re

import torch
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
PAIRS = [("llama3", "int8"), ("llama", "f8e4m3"), ("mixtral", "int8"),
         ("deepseek_v3", "f8e4m3")]
FORMATS = {"int8": 127.0, "f8e4m3": 448.0}


def in_groups(w):
    groups = w.double().reshape(w.shape[0], -1, 128)
    scale = (groups.abs().amax(dim=2, keepdim=True) / 7).float()
    scale = scale.to(torch.bfloat16).double()
    q = torch.where(scale > 0, groups / scale, 0.0).round().clamp(-7, 7)
    return (q * scale).float().reshape(w.shape)


def rounded(name, w, form):
    if form == "int4":
        if ".layers." in name and w.shape[1] % 128 == 0:
            return in_groups(w)
        form = "int8"
    scale = w.double().abs().amax(dim=1, keepdim=True) / FORMATS[form]
    scale = scale.float().double()
    q = w.double() / scale
    if form == "int8":
        q = q.round()
    else:
        q = q.float().to(torch.float8_e4m3fn).double()
    return (q * scale).float()


def is_matrix(name, w, form, names):
    if w.ndim != 2:
        return False
    if ".layers." in name:
        return not re.search(r"(\.gate|norm|\.kv_b_proj)\.weight$", name)
    head = "lm_head.weight"
    if head not in names:
        head = "model.embed_tokens.weight"
    return form != "f8e4m3" and name == head


def main():
    os.makedirs(os.path.join(HERE, "rounded"), exist_ok=True)
    for family, form in PAIRS:
        was = load_file(os.path.join(HERE, "tiny", family,
                                     "model.safetensors"))
        now = {n: rounded(n, w, form) if is_matrix(n, w, form, was) else w
               for n, w in was.items()}
        save_file(now, os.path.join(HERE, "rounded",
                                    f"{family}-{form}.safetensors"))


if __name__ == "__main__":
    main()
