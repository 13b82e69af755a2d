#!/bin/sh
# --dim gives a dim another size, as if the model had been written so.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
model=${top_srcdir:?}/examples/llama-2-70b.llm

sed 's/layers = 80,/layers = 3,/; s/batch = 1024/batch = 8/' "$model" \
	>"$tmp/model.llm"
"$LLMC" --emit=summary "$tmp/model.llm" >"$tmp/want" || exit 1
"$LLMC" --emit=summary --dim layers=3 --dim=batch=8 "$model" | cmp - "$tmp/want" ||
	exit 1

# refused PATTERN ARGUMENTS...
refused()
{
	pattern=$1
	shift
	"$LLMC" --emit=ir "$@" >"$tmp/out" 2>"$tmp/err"
	status=$?
	if [ $status -ne 1 ] || [ -s "$tmp/out" ] ||
	   ! grep -q "$pattern" "$tmp/err"; then
		echo "$*: exit $status, and \"$pattern\" is expected in:"
		cat "$tmp/err"
		exit 1
	fi
}

refused 'no dim .hiden. (did you mean .hidden.?)' --dim hiden=4 "$model"
refused 'is not a multiple of .kv. = 5' --dim kv=5 "$model"
refused '8192 / 7 does not divide evenly' --dim heads=7 "$model"
"$LLMC" --dim layers=0 "$model" 2>"$tmp/err"
[ $? -eq 2 ] || exit 1
"$LLMC" --emit=ir "$model" >"$tmp/model.ir" || exit 1
refused 'is IR text' --dim layers=3 "$tmp/model.ir"
