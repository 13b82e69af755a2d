#!/bin/sh
# A million errors: the first ones are shown, the rest is counted or not even
# looked for. A thousand warnings are cut, too, and do not fail the run.
. "${top_srcdir:?}/tests/lib.sh"
ulimit -t 40
head='model m { dim hidden = 8; input x[batch, hidden];'

# try NAME STATUS LEVEL MOST: at most that many lines say LEVEL.
try()
{
	timeout $limit "$LLMC" --emit=ir many.llm >out 2>err
	got=$?
	lines=$(grep -c ": $3: " err)
	if test $got -ne "$2" || test "$lines" -gt "$4" ||
		test "$lines" -lt 10; then
		bad "$1: status $got, expected $2; $lines lines of $3"
	fi
}

{ echo "$head"; yes 'x = ;' | head -n 1000000; echo '}'; } >many.llm
try 'syntax errors' 1 error 60
grep -q 'more errors are not shown' err ||
	bad 'syntax errors: nothing says that there are more'
{ echo "$head"; yes 'y = z;' | head -n 200000; echo '}'; } >many.llm
try 'unknown names' 1 error 60
{ echo train '{'; yes 'a = 1;' | head -n 200000; echo '}'; } >many.llm
try 'unknown settings' 1 error 60
{
	echo "$head"
	awk 'BEGIN { for (i = 0; i < 50000; i++) print "x" i " = x;" }'
	echo 'logits = x; }'
} >many.llm
try 'unused values' 0 warning 100
exit $failed
