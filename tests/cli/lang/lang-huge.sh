#!/bin/sh
# Texts of many megabytes in one line: an answer comes at once, and is short.
. "${top_srcdir:?}/tests/lib.sh"
# Of computing, whatever else the machine does: a sanitizer's build takes some
# twenty times as long as the usual 2 s.
ulimit -t 40
# Of 3 MB there are more words than the million that is the limit.  One text of
# four is on each day about as long as a file may be, of which sanitizers learn
# nothing more.
head='model m { dim seq = 4, hidden = 8; input x[batch, seq, hidden]; '

# many TEXT BYTES
many()
{
	yes "$1" | tr -d '\n' | head -c "$2"
}

# sized: sets $most to the bytes of the next text
sized()
{
	most=3000000
	if have time && today 4; then
		most=60000000
	fi
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
sized
many a "$most" >huge.llm
short '255 is the limit'
sized
many 7 "$most" >huge.llm
short 'longer, larger'
sized
many ' ' "$most" >huge.llm
short 'no `model` block'
sized
many '?' "$most" >huge.llm
short 'mean nothing'
sized
{ printf '"'; many a "$most"; } >huge.llm
short 'no closing'
sized
{ printf '#'; many a "$most"; } >huge.llm
short 'no `model` block'
sized
{ printf '%slogits = ' "$head"; many 'a+' "$most"; } >huge.llm
short 'nests deeper than 200'
sized
{ printf '%slogits = ' "$head"; many '(' "$most"; } >huge.llm
short 'nests too deep'
sized
{ printf '%slogits = ' "$head"; many '-' "$most"; } >huge.llm
short 'nests too deep'
sized
{ printf '%s' "$head"; many 'x = x;' "$most"; } >huge.llm
short 'more than 1000000 words'
sized
{ printf '%s' "$head"; many 'repeat 2{' "$most"; } >huge.llm
short 'nests too deep'
sized
many 'model m{}' "$most" >huge.llm
short 'more than 1000000 words'
{ printf '%s' "$head"; many 'x = x;' 600000; echo 'logits = x; }'; } >huge.llm
run --emit=ir huge.llm
exit $failed
