#!/usr/bin/env python3
"""Holds the biases that a step of `rank train` moved to the experts that the
transformers library chooses: DeepSeek-V3.

    plan/rank train --local --steps 1 --weights FOLDER --data TOKENS.. \\
        --data-order file --checkpoint RUN
    python3 tests/interop/check_balance.py FOLDER RUN/step-00000001 TOKENS..

TOKENS are files of u16, each one sequence of a batch.  Each bias must have
grown by 0.001 where an expert had fewer tokens than the mean, and fallen by
it where more.
"""
import sys

import numpy
import torch
import transformers
from safetensors.torch import load_file


def loads_of(model, ids):
    """By the name of each router: how often it chose each expert."""
    loads = {}
    for name, part in model.named_modules():
        if hasattr(part, "e_score_correction_bias"):
            size = part.e_score_correction_bias.numel()

            def count(_module, _in, out, name=name, size=size):
                loads[name] = torch.bincount(out[2].flatten(), minlength=size)

            part.register_forward_hook(count)
    model(ids, use_cache=False)
    return loads


def main(folder, run, files):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, experts_implementation="eager").eval()
    rows = [numpy.fromfile(f, dtype=numpy.uint16) for f in files]
    ids = torch.from_numpy(numpy.stack(rows).astype("int64"))
    moved = load_file(run + "/model.safetensors")
    start = load_file(folder + "/model.safetensors")
    loads = loads_of(model, ids[:, :-1])
    if not loads:
        raise SystemExit("no router of this model has a bias")
    for name, load in loads.items():
        key = name + ".e_score_correction_bias"
        load = load.double()
        want = start[key].double() + 0.001 * torch.sign(load.mean() - load)
        off = (moved[key].double() - want).abs().max().item()
        print(key, load.int().tolist(), "off by %.1e" % off)
        if off > 1e-7:
            raise SystemExit("another bias is expected")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    with torch.no_grad():
        main(sys.argv[1], sys.argv[2], sys.argv[3:])
