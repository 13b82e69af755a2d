#!/bin/sh
# Every example has exactly the parameters of the model it is named for, its
# IR reads back byte for byte, and what it prints as source is the same model.
. "${top_srcdir:?}/tests/lib.sh"
n=0

# Published totals; deepseek-v3's are trained weights: its router's 58 x 256
# balance biases are state.
while read -r name total; do
	n=$((n + 1))
	file=$examples/$name.llm
	run -Werror --emit=summary-json "$file" -o sum || continue
	grep -qx "  \"parameters\": $total," sum ||
		bad "$name: want $total, have $(grep '"parameters"' sum)"
	[ "$(wc -l <"$file")" -le 64 ] || bad "$name: longer than a screen"

	"$LLMC" --emit=ir "$file" >a.ir
	"$LLMC" opt --emit=ir a.ir | cmp - a.ir ||
		bad "$name: its IR does not read back"
	"$LLMC" --emit=ast "$file" >a.llm
	"$LLMC" --emit=ir a.llm | cmp - a.ir ||
		bad "$name: its printed source is another model"
	"$LLMC" --emit=ir --passes=default "$file" >c.ir
	"$LLMC" opt --emit=summary-json c.ir | cmp - sum ||
		bad "$name: passes change its summary"
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

# What fits one GPU has an answer for it.
for name in gpt-block gpt2-124m gpt2-xl llama-3.2-1b gpt-bytes tiny-dense \
	tiny-moe; do
	run -w --target h100x1 "$examples/$name.llm"
done

set -- "$examples"/*.llm
[ $# -eq $n ] || bad "$# examples, and $n of them are tested"
exit $failed
