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


FAMILIES = {f.__name__: f for f in (gpt2, llama3, qwen, o200k, deepseek,
                                    llama2, mistral, gemma, odd)}
