#!/bin/sh
# Texts of many megabytes in one line: an answer comes at once, and is short.
. "${top_srcdir:?}/tests/lib.sh"
# Of computing, whatever else the machine does: a sanitizer's build takes some
# twenty times as long as the usual 2 s.
ulimit -t 40
most=60000000
# More of the same bytes tell sanitizers nothing, as long as there are more than
# a million words of them.
have time || most=3000000
head='model m { dim seq = 4, hidden = 8; input x[batch, seq, hidden]; '

# many TEXT BYTES
many()
{
	yes "$1" | tr -d '\n' | head -c "$2"
}

# short WORDS: huge.llm is refused with these, and not many more
short()
{
	refused "$1" --emit=ir huge.llm
	size=$(wc -c <err)
	[ "$size" -le 65536 ] || bad "$size bytes of: $1"
}

many a 70000000 >huge.llm
short 'larger than 64 MiB'
many a "$most" >huge.llm
short '255 is the limit'
many 7 "$most" >huge.llm
short 'longer, larger'
many ' ' "$most" >huge.llm
short 'no `model` block'
many '?' "$most" >huge.llm
short 'mean nothing'
{ printf '"'; many a "$most"; } >huge.llm
short 'no closing'
{ printf '#'; many a "$most"; } >huge.llm
short 'no `model` block'
{ printf '%slogits = ' "$head"; many 'a+' "$most"; } >huge.llm
short 'nests deeper than 200'
{ printf '%slogits = ' "$head"; many '(' "$most"; } >huge.llm
short 'nests too deep'
{ printf '%slogits = ' "$head"; many '-' "$most"; } >huge.llm
short 'nests too deep'
{ printf '%s' "$head"; many 'x = x;' "$most"; } >huge.llm
short 'more than 1000000 words'
{ printf '%s' "$head"; many 'repeat 2{' "$most"; } >huge.llm
short 'nests too deep'
many 'model m{}' "$most" >huge.llm
short 'more than 1000000 words'
{ printf '%s' "$head"; many 'x = x;' 600000; echo 'logits = x; }'; } >huge.llm
run --emit=ir huge.llm
exit $failed
