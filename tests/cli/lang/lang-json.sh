#!/bin/sh
# --diagnostics=json is JSON whatever the text holds.
. "${top_srcdir:?}/tests/lib.sh"
command -v python3 >/dev/null || skip 'no python3'
count=0

# try WHAT: of in.llm, which has an error or a warning.
try()
{
	count=$((count + 1))
	"$LLMC" --emit=ir --diagnostics=json in.llm >out 2>$count.json
	got=$?
	test $got -le 1 && test -s $count.json || bad "$1: status $got"
}

printf 'model m {\n  dim a = 4;\n  logits = y;\n}\n' >in.llm
try 'an error'
printf 'model m {\n  dim a = 4, a = 5;\n  x = y;\n}\n' >in.llm
try 'an error with a note'
printf 'model m {\n  dim a = 4;\n  input x[batch];\n  logits = x;\n}\n' >in.llm
try 'a warning'
printf 'model "q\\\t\001\377\303" {\n  dim \303\244 = 1e999;\n' >in.llm
try 'bytes of all kinds'
printf '' >in.llm
try 'an empty file'
# All of them are pairs as well, so sanitizers see their errors there.
every=1 seen=0
have time || every=10
for test in "$top_srcdir"/tests/lang/*/*.llm; do
	seen=$((seen + 1))
	[ $((seen % every)) -eq 0 ] || continue
	case $test in
	*/ok-* | */families/*) continue ;;
	*/warnings/*) sed 1d "$test" >in.llm ;;
	*) cat "$test" >in.llm ;;
	esac
	try "$test"
done

python3 - ./*.json <<'END' || bad 'this is not the JSON of messages'
import json
import sys

for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for record in json.loads(text):
        assert record["level"] in ("error", "warning"), text
        assert record["message"] and "notes" in record, text
        assert record["length"] >= 0 and record["line"] >= 1, text
END
exit $failed
