#!/usr/bin/env python3
"""Loads folders that `rank export` wrote into the transformers library.

    python3 tests/interop/check_export.py TOKENS FOLDER..

Prints the mean loss over TOKENS, a file of u16, in sequences of the model's
length, for each folder: to be compared with `rank eval --json --data TOKENS`.
Weights that the library misses, or does not expect, are an error.
"""
import sys

import numpy
import torch
import transformers


def loss_of(folder, ids):
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, experts_implementation="eager")
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise SystemExit("%s: %s %s" % (folder, kind, report[kind]))
    model = model.eval()
    config = model.config
    length = getattr(config, "max_position_embeddings", None)
    length = length or config.n_positions
    sums, n = 0.0, (len(ids) - 1) // length
    for i in range(n):
        x = ids[i * length:(i + 1) * length + 1]
        out = model(x[None, :-1], use_cache=False)
        sums += torch.nn.functional.cross_entropy(out.logits[0], x[1:]).item()
        if getattr(out, "aux_loss", None) is not None:
            sums += model.router_aux_loss_coef * out.aux_loss.item()
    return sums / n


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    data = numpy.fromfile(sys.argv[1], dtype=numpy.uint16).astype("int64")
    with torch.no_grad():
        for each in sys.argv[2:]:
            print(each, "%.9g" % loss_of(each, torch.from_numpy(data)))
