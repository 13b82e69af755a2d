#!/bin/sh
# Nesting up to the limits works; one step further is an error, and a million
# steps are one too: nothing overflows a stack.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
bad=0

# nested N OPEN MIDDLE CLOSE: a model with logits = OPEN.. MIDDLE CLOSE..
nested()
{
	awk -v n="$1" -v open="$2" -v middle="$3" -v close_="$4" 'BEGIN {
		printf "model m { dim hidden = 8; input x[batch, hidden];\n"
		for (i = 0; i < n; i++)
			printf "%s", open
		printf "%s", middle
		for (i = 0; i < n; i++)
			printf "%s", close_
		print " logits = x; }"
	}' >deep.llm
}

# try WHAT STATUS WORDS
try()
{
	timeout 40 "${LLMC:?}" --emit=ir deep.llm >out 2>err </dev/null
	got=$?
	if test $got -ne "$2" || { test $got -ne 0 &&
		! grep -qF -e "$3" err; }; then
		echo "$1: status $got, expected $2 and: $3"
		cut -c 1-200 err | head -n 5
		bad=1
	fi
}

# expression WHAT OPEN CLOSE: 199 of them are fine.
expression()
{
	for n in 199 201 400 20000; do
		nested $n "$2" x "$3"
		sed '2s/^/x = /; 2s/ logits/; logits/' deep.llm >t &&
			mv t deep.llm
		case $n in
		199) try "$n $1" 0 '' ;;
		201 | 400) try "$n $1" 1 'nests deeper than 200' ;;
		*) try "$n $1" 1 'deep' ;;
		esac
	done
}

expression calls 'silu(' ')'
expression minus '-' ''
expression sums 'x + (x - ' ')'
expression 'right operands' '(x * ' ')'
nested 1000 '(' x ')'
sed '2s/^/x = /; 2s/ logits/; logits/' deep.llm >t && mv t deep.llm
try '1000 parentheses' 0 ''
nested 200 'repeat 2 { ' 'x = silu(x);' ' }'
try '200 repeats' 0 ''
nested 201 'repeat 2 { ' 'x = silu(x);' ' }'
try '201 repeats' 1 'nest deeper than 200'
nested 20000 'repeat 2 { ' 'x = silu(x);' ' }'
try '20000 repeats' 1 'too deep'
exit $bad
