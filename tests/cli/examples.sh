#!/bin/sh
# Every example has exactly the parameters of the model it is named for, its
# IR reads back byte for byte, and what it prints as source is the same model.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
fail=0
n=0

wrong()
{
	echo "$*"
	fail=1
}

# Published totals; deepseek-v3's are trained weights: its router's 58 x 256
# balance biases are state.
while read -r name total; do
	n=$((n + 1))
	file=${top_srcdir:?}/examples/$name.llm
	if ! "$LLMC" -Werror --emit=summary-json "$file" >"$tmp/sum"; then
		wrong "$name: does not compile"
		continue
	fi
	grep -qx "  \"parameters\": $total," "$tmp/sum" ||
		wrong "$name: want $total, have $(grep '"parameters"' "$tmp/sum")"
	[ "$(wc -l <"$file")" -le 64 ] || wrong "$name: longer than a screen"

	"$LLMC" --emit=ir "$file" >"$tmp/a.ir"
	"$LLMC" opt --emit=ir "$tmp/a.ir" | cmp - "$tmp/a.ir" ||
		wrong "$name: its IR does not read back"
	"$LLMC" --emit=ast "$file" >"$tmp/a.llm"
	"$LLMC" --emit=ir "$tmp/a.llm" | cmp - "$tmp/a.ir" ||
		wrong "$name: its printed source is another model"
	"$LLMC" --emit=ir --passes=default "$file" >"$tmp/c.ir"
	"$LLMC" opt --emit=summary-json "$tmp/c.ir" | cmp - "$tmp/sum" ||
		wrong "$name: passes change its summary"
done <<'END'
gpt-block 68544
gpt2-124m 124439808
gpt2-xl 1557611200
gpt3-175b 174604259328
megatron-22b 22074273792
megatron-530b 529600819200
megatron-1t 1008038758400
llama-2-7b 6738415616
llama-2-70b 68976648192
llama-3-8b 8030261248
llama-3-70b 70553706496
llama-3.1-405b 405853388800
llama-3.2-1b 1235814400
mixtral-8x7b 46702792704
deepseek-v3 671026404352
gpt-bytes 858880
tiny-dense 119104
tiny-moe 53664
END

set -- "${top_srcdir:?}"/examples/*.llm
[ $# -eq $n ] || wrong "$# examples, and $n of them are tested"
exit $fail
