#!/bin/sh
# Nesting up to the limits works; one step further is an error, and a million
# steps are one too: nothing overflows a stack.
. "${top_srcdir:?}/tests/lib.sh"
ulimit -t 40

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

# expression OPEN CLOSE: 199 of them are fine.
expression()
{
	for n in 199 201 400 20000; do
		nested $n "$1" x "$2"
		sed '2s/^/x = /; 2s/ logits/; logits/' deep.llm >t &&
			mv t deep.llm
		echo "$n of $1"
		case $n in
		199) run --emit=ir deep.llm ;;
		201 | 400) refused 'nests deeper than 200' --emit=ir deep.llm ;;
		*) refused deep --emit=ir deep.llm ;;
		esac
	done
}

expression 'silu(' ')'
expression '-' ''
expression 'x + (x - ' ')'
expression '(x * ' ')'
nested 1000 '(' x ')'
sed '2s/^/x = /; 2s/ logits/; logits/' deep.llm >t && mv t deep.llm
run --emit=ir deep.llm
nested 200 'repeat 2 { ' 'x = silu(x);' ' }'
run --emit=ir deep.llm
nested 201 'repeat 2 { ' 'x = silu(x);' ' }'
refused 'nest deeper than 200' --emit=ir deep.llm
nested 20000 'repeat 2 { ' 'x = silu(x);' ' }'
refused 'too deep' --emit=ir deep.llm
exit $failed
