#!/usr/bin/env python3
"""Makes rounded/bf16.txt: logits of models of tiny/ whose weights are bf16.

    pip install torch transformers
    python3 tests/interop/make_bf16.py

Weights are rounded to bf16.  With these transformers computes the logits of a
few prompts in float64, and once more in bf16: the largest difference
is what the type costs.  A line `FAMILY bound B` has that; each other line has a
family and the logits of a position, in float64.  tests/cli/run/served-bf16.sh
holds programs that serve in bf16 to them.
"""
import os

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = ["llama", "qwen3", "gemma2", "mixtral", "deepseek_v3"]
PROMPTS = [[1, 2, 3, 4, 5, 6, 7, 8], [19, 0, 11, 11, 3, 17, 2, 9],
           [10, 12, 14, 16, 18, 1, 4, 7]]


def logits(model):
    with torch.no_grad():
        return model(torch.tensor(PROMPTS)).logits.double()


def main():
    with open(os.path.join(HERE, "rounded", "bf16.txt"), "w",
              encoding="ascii") as f:
        for family in FAMILIES:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                os.path.join(HERE, "tiny", family), dtype=torch.bfloat16,
                attn_implementation="eager",
                experts_implementation="eager").eval()
            narrow = logits(model)
            exact = logits(model.to(torch.float64))
            f.write("%s bound %.6g\n" % (family,
                                         (narrow - exact).abs().max()))
            for rows in exact:
                for row in rows:
                    f.write("%s %s\n" % (family, " ".join(
                        "%.9g" % v for v in row)))


if __name__ == "__main__":
    main()
