#!/usr/bin/env python3
"""Writes the tables of Unicode that tokenizers need.

    pip install unicodedata2==16.0.0
    python3 make-tables.py categories > tok_category_table.c
    python3 make-tables.py nfc > tok_nfc_table.c

Ids must be those of Hugging Face's package, so the versions are what version
0.23 of it has: its regular expressions know Unicode 16, its NFC Unicode 9.
Which characters are of Unicode 9 is asked of perl.
"""
import subprocess
import sys
import unicodedata2 as u

NAMES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po "
         "Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn").split()


def head(what):
    print(f"/*\n * {what}\n * of Unicode {u.unidata_version}, in order.\n"
          " * Written by runtime/tokenize/make-tables.py; do not edit.\n */\n"
          '#include "runtime/tokenize/tok_unicode.h"\n')


def rows(items):
    line = "\t"
    for item in items:
        if len(line) + 8 + len(item) > 80:
            print(line.rstrip())
            line = "\t"
        line += item + ", "
    print(line.rstrip())


def categories():
    head("Ranges of one category: its first character and the category")
    out, last = [], None
    for c in range(0x110000):
        name = u.category(chr(c))
        if name != last:
            out.append(f"{c << 5 | NAMES.index(name):#x}")
            last = name
    print("const uint32_t rt_unicode_categories[] = {")
    rows(out)
    print("};\n\nconst size_t rt_unicode_ncategories =")
    print("\tsizeof rt_unicode_categories / sizeof *rt_unicode_categories;")


def pair(c):
    d = u.decomposition(chr(c))
    if not d or d[0] == "<":
        return None
    return [int(x, 16) for x in d.split()]


def nfc():
    head("Combining classes and canonical decompositions, as of Unicode 9, "
         "by the data")
    asked = subprocess.run(
        ["perl", "-e", "for (0 .. 0x10ffff) { print qq{$_\\n} "
         "if chr =~ /\\p{Present_In=9.0}/ }"],
        check=True, capture_output=True, text=True).stdout
    old = set(map(int, asked.split()))
    out, before = [], 0
    for c in range(0x110000):
        k = u.combining(chr(c)) if c in old else 0
        if k != before:
            out.append(f"{c << 8 | k:#x}")
            before = k
    print("/* Ranges of one class: the first character and the class. */")
    print("const uint32_t rt_unicode_classes[] = {")
    rows(out)
    print("};\n\nconst size_t rt_unicode_nclasses =")
    print("\tsizeof rt_unicode_classes / sizeof *rt_unicode_classes;\n")
    print("/*\n * Three numbers each: a character and the two that it stands "
          "for, the second 0\n * if there is one; the first of them has "
          "RT_UNICODE_APART if NFC never makes\n * the character.\n */")
    print("const uint32_t rt_unicode_pairs[] = {")
    out = []
    for c in range(0x110000):
        p = pair(c) if c in old else None
        if p:
            only = u.normalize("NFC", chr(c)) != chr(c)
            out += [f"{c:#x}", f"{p[0] | only << 31:#x}",
                    f"{(p + [0])[1]:#x}"]
    rows(out)
    print("};\n\nconst size_t rt_unicode_npairs =")
    print("\tsizeof rt_unicode_pairs / sizeof *rt_unicode_pairs / 3;")


if len(sys.argv) != 2 or sys.argv[1] not in ("categories", "nfc"):
    sys.exit(__doc__)
categories() if sys.argv[1] == "categories" else nfc()
