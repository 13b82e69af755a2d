#!/usr/bin/env python3
"""Makes rounded/caches.txt: what models of tiny/ say with a rounded cache.

    pip install torch transformers
    python3 tests/interop/make_cached.py

transformers computes with a cache that PyTorch rounds: keys and values, or the
latents of DeepSeek, are those that it would keep.  Each line has a family, the
cache's type, a token, of five that continue the prompt "bcd" with the likeliest
one each time, and the logarithm of its chance; a letter is a token, from a on.
tests/cli/run/served-cache.sh holds programs that serve to them.
"""
import os

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = ["llama", "deepseek_v3", "qwen3"]
TYPES = {"f8e4m3": (torch.float8_e4m3fn, 448.0),
         "f8e5m2": (torch.float8_e5m2, 57344.0)}


class RoundedCache(transformers.DynamicCache):
    """What is kept is rounded to the nearest number of 8 bits; saturates."""

    def __init__(self, form):
        super().__init__()
        self.form = form

    def update(self, key_states, value_states, *args, **kwargs):
        dtype, most = TYPES[self.form]
        key_states, value_states = (
            x.clamp(-most, most).to(dtype).to(x.dtype)
            for x in (key_states, value_states))
        return super().update(key_states, value_states, *args, **kwargs)


def continued(model, ids, count, form):
    """Tokens and the logarithms of their chances, of the whole text each."""
    out = []
    for _ in range(count):
        with torch.no_grad():
            logits = model(torch.tensor([ids]), use_cache=True,
                           past_key_values=RoundedCache(form)).logits[0, -1]
        chances = torch.log_softmax(logits.double(), dim=-1)
        ids = ids + [int(chances.argmax())]
        out.append((ids[-1], float(chances.max())))
    return out


def main():
    name = os.path.join(HERE, "rounded", "caches.txt")
    with open(name, "w", encoding="ascii") as f:
        for family in FAMILIES:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                os.path.join(HERE, "tiny", family), dtype=torch.float32,
                experts_implementation="eager").eval()
            for form in TYPES:
                for token, chance in continued(model, [1, 2, 3], 5, form):
                    f.write("%s %s %s %.6f\n" % (family, form,
                                                chr(97 + token), chance))


if __name__ == "__main__":
    main()
