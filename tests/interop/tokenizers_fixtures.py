#!/usr/bin/env python3
"""Writes tests/data/tokenizers: tiny tokenizers, and what they make of texts.

    pip install tokenizers==0.23.3
    tests/interop/tokenizers_fixtures.py

Each NAME.json was trained here; NAME.ids has texts, their ids as the package
has them, and what it decodes them to, with special tokens and without.
"""
import json
import os

from tokenizers_train import FAMILIES, corpus

TEXTS = [
    "", " ", "a", "Hello, world!", "  leading and trailing  ",
    "It's we've I'LL you'Re 'tis don'T 'ſo", "x=1234567; y = 0x7f\n",
    "tabs\t\tand\n\nlines\r\n \n  end", "\n\n\n", "a\n \n \tb   c",
    "日本語学 模型训练的了 한국어", "ไทยภาษา हमैं العرب", "Кама мори",
    "é e\u0301 ㉐ \u1100\u1161\u11a8 \u212b \u0958 a\u0327\u0301\u0328",
    "\uac00\u11a8 q\u0323\u0307 \U0001d15e \u2126", "🙂👍🏽 \U000e0001",
    "<s> <|endoftext|>x<|begin_of_text|> <|im_end|></s>[INST] hi",
    "<unk><pad><bos>▁▁▁ ▁x <0x0A> <tool_call>", "a <l>  b <r>  c one oneone",
    "é--é ---- -- 1 22 333", "\x00\x01\x7f\x80\xff", "\u0085\u2003\u3000x",
    "α", "ﬀ ß SS ſ K", "\ufffd\ufeff\U0010ffff\u0378",
    "the ing er tion " * 9, "a" * 300, "ab" * 100 + "\n" * 70 + " " * 90,
    "x" + "\u0301\u0323" * 40, "<" * 20 + "<s" * 5 + "<|", "''''s's'",
    "ending with half a token <|end", "<｜end▁of▁sentence｜>的",
]


def write_ids(path, t):
    rows = []
    for text in TEXTS:
        ids = t.encode(text).ids
        rows.append({"text": text, "ids": ids, "all": t.decode(
            ids, skip_special_tokens=False), "plain": t.decode(ids)})
    with open(path, "w", encoding="utf-8") as f:
        f.write("[" + ",\n".join(json.dumps(x) for x in rows) + "]\n")


def main():
    top = os.path.join(os.path.dirname(__file__), "..", "data", "tokenizers")
    os.makedirs(top, exist_ok=True)
    lines = corpus(1, 400)
    for name in ("gpt2", "llama3", "qwen", "o200k", "deepseek", "llama2",
                 "mistral", "gemma", "odd"):
        small = name in ("llama2", "mistral", "gemma", "odd")
        t = FAMILIES[name](lines, 520 if small else 330)
        t.save(f"{top}/{name}.json", pretty=False)
        write_ids(f"{top}/{name}.ids", t)


if __name__ == "__main__":
    main()
