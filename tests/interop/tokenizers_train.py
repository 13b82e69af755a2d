"""Tokenizers of the families that are published, trained on generated text.

The patterns, normalizers, decoders and added tokens are those of the families;
only the vocabularies are small.  Used by tokenizers_compare.py, and by hand to
write the fixtures in tests/data/tokenizers.
"""
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + CONTRACTIONS +
         r"?|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + CONTRACTIONS +
         r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [
    r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"]

CJK = "[一-龥\u0800-一가-\ud7ff]+"
SIGNS = "!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"
# those with two cases, as the model's file lists them
LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf"
    "\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d"
    "\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d"
    "\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3"
    "\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107"
    "\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d"
    "\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184"
    "\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"
    "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943")

SYLLABLES = ("the ing er tion con st re a o un de pro com ter ly ment 's 'll "
             "( ) ; = == { } -> // # 12 2024 0x7f 3.14 , . : ? ! "
             "ка мо ри на то сё λό γος και τα 日 本 語 学 模型 训练 的 了 한 국 어 "
             "é ü ñ ção ß ام الع رب है मैं की 🙂 👍🏽 ไทย ภาษา").split()


def corpus(seed, n):
    draw = random.Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4)))
             for _ in range(3000)]
    weights = [1 / (i + 1) for i in range(len(words))]
    lines = []
    for _ in range(n):
        line = " ".join(draw.choices(words, weights, k=draw.randint(1, 20)))
        lines.append("    " * draw.randint(0, 2) + line + "\n")
    return lines


def train(t, lines, size, **more):
    t.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=size, show_progress=False, **more))
    return t


def special(t, *names):
    t.add_special_tokens([AddedToken(x, special=True, normalized=False)
                          for x in names])


def template(t, first):
    return processors.TemplateProcessing(
        single=f"{first} $A", pair=f"{first} $A {first}:1 $B:1",
        special_tokens=[(first, t.token_to_id(first))])


def byte_level(lines, size, splits, behavior="isolated", invert=False,
               normalizer=None, **model):
    t = Tokenizer(models.BPE(**model))
    last = pre_tokenizers.ByteLevel(add_prefix_space=False,
                                    use_regex=not splits)
    t.pre_tokenizer = last if not splits else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(x), behavior, invert) for x in splits] +
        [last])
    if normalizer:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    return train(t, lines, size,
                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def gpt2(lines, size):
    t = byte_level(lines, size, [], continuing_subword_prefix="",
                   end_of_word_suffix="")
    special(t, "<|endoftext|>")
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def llama3(lines, size):
    t = byte_level(lines, size, [LLAMA3], ignore_merges=True)
    special(t, "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>")
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        template(t, "<|begin_of_text|>")])
    return t


def qwen(lines, size):
    t = byte_level(lines, size, [QWEN], normalizer=normalizers.NFC())
    special(t, "<|endoftext|>", "<|im_start|>", "<|im_end|>")
    t.add_tokens([AddedToken("<tool_call>", normalized=False),
                  AddedToken("</tool_call>", normalized=False)])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def o200k(lines, size):
    t = byte_level(lines, size, [O200K], "removed", True, ignore_merges=True)
    special(t, "<|startoftext|>", "<|endoftext|>")
    return t


def deepseek(lines, size):
    t = byte_level(lines, size, DEEPSEEK)
    special(t, "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")
    t.post_processor = template(t, "<｜begin▁of▁sentence｜>")
    return t


def tekken(lines, size):
    t = byte_level(lines, size, [O200K.replace(CONTRACTIONS + "?", "")
                                 .replace(r"\p{N}{1,3}", r"\p{N}")],
                   ignore_merges=True)
    special(t, "<unk>", "<s>", "</s>", "[INST]", "[/INST]")
    t.post_processor = template(t, "<s>")
    return t


def starcoder(lines, size):
    t = byte_level(lines, size, [r"\p{N}"])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    special(t, "<|endoftext|>")
    return t


def coder(lines, size):
    t = byte_level(lines, size, [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK,
                                 r"\p{N}"])
    special(t, "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")
    t.post_processor = template(t, "<｜begin▁of▁sentence｜>")
    return t


def deepseek_llm(lines, size):
    t = byte_level(lines, size, [r"[\r\n]", r"\s?[" + LETTERS + "]+",
                                 r"\s?[" + SIGNS + "]+", r"\s+$",
                                 CJK, r"\p{N}+"])
    special(t, "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")
    t.post_processor = template(t, "<｜begin▁of▁sentence｜>")
    return t


def fallback(lines, size, names, words):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True,
                             byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(split=words)
    train(t, lines, size, limit_alphabet=200, special_tokens=names + [
        f"<0x{i:02X}>" for i in range(256)])
    known = json.loads(t.to_str())
    known["added_tokens"] = [x for x in known["added_tokens"]
                             if x["content"] in names]
    t = Tokenizer.from_str(json.dumps(known))
    first = "<s>" if "<s>" in names else "<bos>"
    t.post_processor = template(t, first)
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(),
             decoders.Fuse()]
    if first == "<s>":
        parts.append(decoders.Strip(" ", 1, 0))
    t.decoder = decoders.Sequence(parts)
    return t


def llama2(lines, size):
    t = fallback(lines, size, ["<unk>", "<s>", "</s>"], True)
    t.pre_tokenizer = None
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"),
                                         normalizers.Replace(" ", "▁")])
    return t


def mistral(lines, size):
    t = fallback(lines, size, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"],
                 True)
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first",
                                               split=False)
    return t


def gemma(lines, size):
    names = ["<pad>", "<eos>", "<bos>", "<unk>", "\n\n", "\n\n\n", "▁▁",
             "▁▁▁▁", "<start_of_turn>"]
    t = fallback(lines, size, names, False)
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return t


def odd(lines, size):
    """What the others leave out: stripping, single words, prefix spaces."""
    t = Tokenizer(models.BPE(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Replace(Regex(r"\t{2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Metaspace(prepend_scheme="first", split=True),
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Split(Regex(r"[\r\n]+"), "merged_with_next"),
        pre_tokenizers.Split("--", "contiguous")])
    t.decoder = decoders.Metaspace()
    train(t, lines, size, special_tokens=["[UNK]"])
    t.add_tokens([AddedToken("<l>", lstrip=True, normalized=False),
                  AddedToken("<r>", rstrip=True, normalized=False),
                  AddedToken("one", single_word=True),
                  AddedToken("é", normalized=True)])
    return t


FAMILIES = {f.__name__: f for f in (
    gpt2, llama3, qwen, o200k, deepseek, tekken, starcoder, coder,
    deepseek_llm, llama2, mistral, gemma, odd)}
