#!/usr/bin/env python3
"""Tokenizers as llama.cpp stores them.

    pip install tokenizers==0.23.3 gguf llama-cpp-python
    tests/interop/tokenizers_gguf.py             writes tests/data/tokenizers
    tests/interop/tokenizers_gguf.py LLMC [MEGABYTES [SEED]]

Of the families of tokenizers_train.py that llama.cpp has, NAME.gguf has the
tokenizer and nothing else; what the package `tokenizers` makes of texts is in
NAME.ids, as tokenizers_fixtures.py writes it.  With LLMC, random text is made
ids of by llmc, by the package and by llama.cpp, and all must be the same.  The
text is in NFC, to which llama.cpp does not bring it, and without characters
whose category is of a Unicode that llama.cpp does not have.
"""
import json
import os
import random
import sys
import tempfile
import unicodedata

import gguf

from tokenizers_fixtures import TEXTS, write_ids
from tokenizers_train import FAMILIES, corpus

# tokenizer.ggml.pre of each
PRE = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen": "qwen2",
       "o200k": "gpt-4o", "deepseek": "deepseek-v3", "tekken": "tekken",
       "starcoder": "starcoder", "coder": "deepseek-coder",
       "deepseek_llm": "deepseek-llm", "llama2": None, "gemma": None}
# the marks of tokenizer.chat_template
CHATS = {"llama2": "{{ '[INST] <<SYS>>' + system + '<</SYS>>' }}",
         "qwen": "{{ '<|im_start|>' + message['role'] }}"}
# llama.cpp has other patterns, which take no marks for letters, or U+0085 for
# no blank
OTHERS = {"o200k", "tekken", "coder", "deepseek_llm"}
T = gguf.TokenType


def token_type(name, content, added):
    if content in added:
        return T.USER_DEFINED if not added[content]["special"] else (
            T.UNKNOWN if content == "<unk>" else T.CONTROL)
    if PRE[name] is None and content[:3] == "<0x" and len(content) == 6:
        return T.BYTE
    return T.NORMAL


def save(path, name, tokenizer):
    """The tokenizer as convert_hf_to_gguf.py writes it."""
    t = json.loads(tokenizer.to_str())
    added = {x["content"]: x for x in t["added_tokens"]}
    ids = dict(t["model"]["vocab"])
    ids.update((x["content"], x["id"]) for x in t["added_tokens"])
    tokens = sorted(ids, key=ids.get)
    merges = [x.split(" ") if isinstance(x, str) else x
              for x in t["model"]["merges"]]
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("gpt2" if PRE[name] else "llama")
    w.add_tokenizer_pre(PRE[name] or "default")
    w.add_token_list(tokens)
    w.add_token_types([token_type(name, x, added) for x in tokens])
    if PRE[name]:
        w.add_token_merges([" ".join(x) for x in merges])
    else:
        scores = {}
        for rank, (a, b) in enumerate(merges):
            scores.setdefault(a + b, -float(rank))
        last = -float(len(merges))
        w.add_token_scores([scores.get(x, last - i)
                            for i, x in enumerate(tokens)])
        w.add_add_space_prefix(name == "llama2")
        w.add_unk_token_id(ids["<unk>"])
    first = (t["post_processor"] or {}).get("processors", [{}, {}])[-1]
    first = first or t["post_processor"] or {}
    begins = [x["SpecialToken"]["id"] for x in first.get("single", [])
              if "SpecialToken" in x]
    w.add_add_bos_token(bool(begins))
    if name in CHATS:
        w.add_chat_template(CHATS[name])
    if begins:
        w.add_bos_token_id(ids[begins[0]])
    for end in ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
                "<｜end▁of▁sentence｜>"):
        if end in ids:
            w.add_eos_token_id(ids[end])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def fixtures(top):
    lines = corpus(1, 400)
    for name in PRE:
        t = FAMILIES[name](lines, 520 if PRE[name] is None else 330)
        save(f"{top}/{name}.gguf", name, t)
        if not os.path.exists(f"{top}/{name}.json"):
            write_ids(f"{top}/{name}.ids", t)


def compare(llmc, name, folder, texts):
    from llama_cpp import Llama
    from tokenizers_compare import read_ids, run

    path, out = f"{folder}/{name}.gguf", f"{folder}/out.bin"
    theirs = FAMILIES[name](corpus(2, 2000), 3000)
    save(path, name, theirs)
    with open(f"{folder}/docs.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"text": x}) + "\n" for x in texts)
    run(llmc, "--tokenizer", path, f"{folder}/docs.jsonl", "-o", out)
    ours, at = read_ids(out), 0
    llama = Llama(model_path=path, vocab_only=True, verbose=False)
    bad = {"package": 0, "llama.cpp": 0}
    for text in texts:
        want = {"package": theirs.encode(text).ids,
                "llama.cpp": llama.tokenize(text.encode(), special=True)}
        n = len(want["package"])
        for who, ids in want.items():
            if list(ours[at:at + len(ids)]) != ids:
                bad[who] += 1
                if bad[who] <= 3 and name not in OTHERS:
                    print(name, who, repr(text), ids, ours[at:at + n])
        at += n
    print(f"{name}: {len(texts)} texts, {len(ours)} ids, differ from the "
          f"package in {bad['package']}, from llama.cpp in "
          f"{bad['llama.cpp']}", flush=True)
    return not bad["package"] and (not bad["llama.cpp"] or name in OTHERS)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    if len(sys.argv) == 1:
        fixtures(os.path.join(here, "..", "data", "tokenizers"))
        return
    from tokenizers_compare import draw_text

    size, seed = (sys.argv[2:] + ["0.3", "1"][len(sys.argv) - 2:])[:2]
    draw, size = random.Random(int(seed)), float(size) * 1e6
    plain = "".join(corpus(2, 2000))
    texts = [x for x in TEXTS if x and "\x00" not in x]
    while sum(map(len, texts)) < size:
        texts.append(draw_text(draw, plain) or "x")
    texts = [unicodedata.normalize("NFC", x) for x in texts]
    with tempfile.TemporaryDirectory() as folder:
        good = [compare(sys.argv[1], x, folder, texts) for x in PRE]
    sys.exit(not all(good))


main()
