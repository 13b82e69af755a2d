#!/bin/sh
# Texts of many megabytes in one line: an answer comes at once, and is short.
# shellcheck disable=SC2016 # messages quote with back quotes
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
bad=0
most=60000000
# more of the same bytes tell sanitizers nothing
[ "${SLOW_TESTS-}" != skip ] || most=10000000
head='model m { dim seq = 4, hidden = 8; input x[batch, seq, hidden]; '

# many TEXT BYTES
many()
{
	yes "$1" | tr -d '\n' | head -c "$2"
}

# try NAME STATUS WORDS: of huge.llm; no words, no message.
try()
{
	# a sanitizer's build takes some twenty times as long as the usual 2 s
	timeout 40 "${LLMC:?}" --emit=ir huge.llm >out 2>err </dev/null
	got=$?
	size=$(wc -c <err)
	if test $got -ne "$2" || test "$size" -gt 65536 ||
		{ test -n "$3" && ! grep -qF -e "$3" err; }; then
		echo "$1: status $got, expected $2, $size bytes of: $3"
		cut -c 1-200 err | head -n 5
		bad=1
	fi
}

many a 100000000 >huge.llm
try 'too large' 1 'larger than 64 MiB'
many a "$most" >huge.llm
try 'one name' 1 '255 is the limit'
many 7 "$most" >huge.llm
try 'one number' 1 'longer, larger'
many ' ' "$most" >huge.llm
try 'blanks' 1 'no `model` block'
many '?' "$most" >huge.llm
try 'junk' 1 'mean nothing'
{ printf '"'; many a "$most"; } >huge.llm
try 'one text' 1 'no closing'
{ printf '#'; many a "$most"; } >huge.llm
try 'one comment' 1 'no `model` block'
{ printf '%slogits = ' "$head"; many 'a+' "$most"; } >huge.llm
try 'a sum' 1 'nests deeper than 200'
{ printf '%slogits = ' "$head"; many '(' "$most"; } >huge.llm
try 'parentheses' 1 'nests too deep'
{ printf '%slogits = ' "$head"; many '-' "$most"; } >huge.llm
try 'minus' 1 'nests too deep'
{ printf '%s' "$head"; many 'x = x;' "$most"; } >huge.llm
try 'statements' 1 'more than 1000000 words'
{ printf '%s' "$head"; many 'repeat 2{' "$most"; } >huge.llm
try 'repeats' 1 'nests too deep'
many 'model m{}' "$most" >huge.llm
try 'models' 1 'more than 1000000 words'
{ printf '%s' "$head"; many 'x = x;' 600000; echo 'logits = x; }'; } >huge.llm
try 'a large model' 0 ''
exit $bad
