#!/usr/bin/env python3
"""llmc tokenize beside the package `tokenizers`: the same ids, and how fast.

    pip install tokenizers==0.23.3
    tests/interop/tokenizers_compare.py LLMC [MEGABYTES [SEED]]

For each family, random Unicode text of so many megabytes (default: 10) as
JSON lines is tokenized by both, document by document.  Then the same text as
one file, where llmc cuts it in parts.
"""
import json
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

from tokenizers import Tokenizer

from tokenizers_train import FAMILIES, corpus

SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2003\u2028\u3000"
TOKENS = ("<|endoftext|> <|begin_of_text|> <s> </s> <unk> [INST] <|im_start|> "
          "<tool_call> <0x0A> <bos> ▁ ▁▁ ▁▁▁▁ <l> <r> one é 's 'S 'LL 'ſ 've "
          "123 12345 -- --- ' <pad> <｜end▁of▁sentence｜>").split()
ALL = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
KNOWN = [c for c in ALL if unicodedata.category(chr(c)) not in ("Cn", "Co")]
MARKS = [c for c in KNOWN if unicodedata.combining(chr(c))]
SPLIT = [c for c in KNOWN if unicodedata.decomposition(chr(c))]


def draw_text(draw, plain):
    def pick(of, most):
        return "".join(chr(x) for x in draw.choices(of, k=draw.randint(1, most)))

    def part():
        k = draw.random()
        if k < .35:
            at = draw.randrange(len(plain) - 60)
            return plain[at:at + draw.randint(1, 60)]
        if k < .45:
            return pick(KNOWN, 6)
        if k < .5:
            return pick(ALL, 3)
        if k < .6:
            return "".join(draw.choices(SPACES, k=draw.randint(1, 5)))
        if k < .7:
            return draw.choice("aeouAEx가각ᄀ") + pick(MARKS, 4)
        if k < .74:
            return pick(SPLIT, 3)
        if k < .77:
            return pick(range(0x1100, 0x1200), 4)
        if k < .87:
            return draw.choice(["", " "]) + draw.choice(TOKENS)
        if k < .93:
            return pick(range(0x4E00, 0xA000), 5)
        return pick(range(32, 127), 9)

    return "".join(part() for _ in range(draw.randint(0, 25)))


def read_ids(path):
    data = open(path, "rb").read()
    magic, _, low, high = struct.unpack_from("<4I", data)
    wide = magic == 20240801
    n = low | high << 32
    return struct.unpack_from(f"<{n}{'I' if wide else 'H'}", data, 1024)


def run(llmc, *words):
    t = time.perf_counter()
    subprocess.run([llmc, "tokenize", *words], check=True,
                   stdout=subprocess.DEVNULL)
    return time.perf_counter() - t


def differ(name, ours, theirs, texts):
    at = 0
    for text, ids in zip(texts, theirs):
        if list(ours[at:at + len(ids)]) != ids:
            k = next(i for i in range(len(ids)) if
                     at + i >= len(ours) or ours[at + i] != ids[i])
            sys.exit(f"{name}: {text!r} differs from id {k} on: "
                     f"{ours[at + k:at + k + 5]} not {ids[k:k + 5]}")
        at += len(ids)
    if at != len(ours):
        sys.exit(f"{name}: {len(ours) - at} ids too many")


def compare(llmc, name, folder, texts):
    path = f"{folder}/{name}.json"
    theirs = Tokenizer.from_file(path)
    t = time.perf_counter()
    wanted = [e.ids for e in theirs.encode_batch(texts)]
    package_s = time.perf_counter() - t
    lines, out = f"{folder}/docs.jsonl", f"{folder}/out.bin"
    own_s = run(llmc, "--tokenizer", path, lines, "-o", out)
    ours = read_ids(out)
    differ(name, ours, wanted, texts)
    for text, ids in zip(texts[:2000], wanted):
        assert theirs.decode(ids) is not None
    whole = "".join(texts)
    run(llmc, "--tokenizer", path, f"{folder}/whole.txt", "-o", out)
    # a text of megabytes that is one word takes the package hours
    if theirs.pre_tokenizer is not None and name not in ("mistral", "gemma"):
        differ(name + ", one file", read_ids(out),
               [theirs.encode(whole).ids], [whole[:40]])
    print(f"{name}: {len(texts)} documents, {len(ours)} ids, equal; "
          f"llmc {own_s:.2f} s, package {package_s:.2f} s, "
          f"{package_s / own_s:.1f} times as fast", flush=True)


def main():
    llmc = sys.argv[1]
    size = float(sys.argv[2]) * 1e6 if len(sys.argv) > 2 else 1e7
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    lines = corpus(1, 4000)
    plain = "".join(lines)
    texts, total = [], 0
    while total < size:
        texts.append(draw_text(draw, plain))
        total += len(texts[-1].encode())
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/docs.jsonl", "w", encoding="utf-8") as f:
            for x in texts:
                f.write(json.dumps({"n": 1, "text": x},
                                   ensure_ascii=len(x) % 2 == 0) + "\n")
        with open(f"{folder}/whole.txt", "w", encoding="utf-8",
                  newline="") as f:
            f.write("".join(texts))
        for name, make in FAMILIES.items():
            make(lines, 2000).save(f"{folder}/{name}.json")
            compare(llmc, name, folder, texts)


if __name__ == "__main__":
    main()
