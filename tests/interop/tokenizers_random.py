#!/usr/bin/env python3
"""Random tokenizers: what llmc tokenize makes of texts beside the package.

    pip install tokenizers==0.23.3
    tests/interop/tokenizers_random.py LLMC [HOW-MANY [SEED]]

Normalizers, pre-tokenizers, vocabularies, merges and flags of added tokens are
drawn.  Where the package itself fails the rest of its texts are left out.
"""
import json
import random
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import models, normalizers as N, pre_tokenizers as P

from tokenizers_train import SYLLABLES
from tokenizers_compare import draw_text, read_ids

PATTERNS = [r"\p{L}+", r"\s+", r"\p{N}{1,3}", r"[^\s\p{L}]+", r" ?\p{L}+|\s",
            r"\s+(?!\S)|\s", r"[\r\n]+", r"(?i:'s|'t)|\p{Lu}\p{Ll}*", r".",
            r"a|e|[aeiou]+?x"]
STRINGS = [" ", "▁", "--", "e", "the", "\n", "é"]
HOW = ["removed", "isolated", "merged_with_previous", "merged_with_next",
       "contiguous"]
ADDED = ["<s>", "the", "e ", "<unk>", " a", "é", "x", "▁▁", "12", "\n "]


def model(draw, byte_level):
    known = list(P.ByteLevel.alphabet() if byte_level else
                 "▁ etaoinshrdlucmfwypvbgkEThe日本語éка<0x>:,.\n12'")
    draw.shuffle(known)
    tokens, merges = list(dict.fromkeys(known)), []
    for _ in range(draw.randint(0, 150)):
        a, b = draw.choice(tokens), draw.choice(tokens)
        if len(a + b) <= 8 and (a, b) not in merges:
            merges.append((a, b))
            if a + b not in tokens:
                tokens.append(a + b)
    more = {"fuse_unk": draw.random() < .5,
            "ignore_merges": draw.random() < .3}
    if draw.random() < .6:
        tokens.append("<unk>")
        more["unk_token"] = "<unk>"
    if not byte_level and draw.random() < .5:
        tokens += [f"<0x{i:02X}>" for i in range(draw.choice([256, 99]))]
        more["byte_fallback"] = True
    ids = {x: i for i, x in enumerate(dict.fromkeys(tokens))}
    return models.BPE(vocab=ids, merges=merges, **more)


def normalizer(draw):
    return draw.choice([
        N.NFC, lambda: N.Prepend(draw.choice(["▁", "xy"])),
        lambda: N.Replace(draw.choice(STRINGS), draw.choice("▁ qz")),
        lambda: N.Replace(Regex(draw.choice(PATTERNS)), "▁")])()


def splitter(draw):
    pattern = draw.choice([Regex(draw.choice(PATTERNS)),
                           draw.choice(STRINGS)])
    return draw.choice([
        lambda: P.Split(pattern, draw.choice(HOW), draw.random() < .3),
        lambda: P.Split(pattern, draw.choice(HOW), draw.random() < .3),
        lambda: P.Digits(draw.random() < .5),
        lambda: P.Metaspace(
            prepend_scheme=draw.choice(["first", "always", "never"]),
            split=draw.random() < .5)])()


def tokenizer(draw):
    byte_level = draw.random() < .5
    t = Tokenizer(model(draw, byte_level))
    parts = [normalizer(draw) for _ in range(draw.choice([0, 0, 1, 2, 3]))]
    if parts:
        t.normalizer = N.Sequence(parts)
    parts = [splitter(draw) for _ in range(draw.choice([0, 1, 1, 2, 3]))]
    if byte_level:
        parts.append(P.ByteLevel(add_prefix_space=draw.random() < .4,
                                 use_regex=draw.random() < .5))
    if parts:
        t.pre_tokenizer = P.Sequence(parts)
    for _ in range(draw.randint(0, 4)):
        t.add_tokens([AddedToken(draw.choice(ADDED), **{
            x: draw.random() < .35 for x in
            ("single_word", "lstrip", "rstrip", "normalized", "special")})])
    return t


def main():
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    plain = " ".join(draw.choices(SYLLABLES, k=5000))
    count, refused, cut = int(sys.argv[2]) if len(sys.argv) > 2 else 100, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{folder}/{x}" for x in ("t.json", "t.jsonl", "t.bin")]
        for i in range(count):
            t = tokenizer(draw)
            t.save(names[0])
            wanted, texts = [], []
            for _ in range(40):
                text = draw_text(draw, plain)
                try:
                    wanted += t.encode(text).ids
                except BaseException:  # a panic is no Exception
                    cut += 1
                    break
                texts.append(text)
            with open(names[1], "w", encoding="utf-8") as f:
                f.writelines(json.dumps({"text": x}) + "\n" for x in texts)
            r = subprocess.run([sys.argv[1], "tokenize", "--tokenizer",
                                names[0], names[1], "-o", names[2]],
                               capture_output=True, text=True)
            if r.returncode == 1:
                refused += wanted != []
            elif r.returncode or list(read_ids(names[2])) != wanted:
                sys.exit(f"tokenizer {i}: other ids\n{open(names[0]).read()}")
    print(f"{count} tokenizers: equal; {refused} refused, the package failed "
          f"within {cut}")


main()
