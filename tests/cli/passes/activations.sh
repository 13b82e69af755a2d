#!/bin/sh
# What a layer of GPT keeps for backward is the published count, to the byte:
# 34 s b h + 5 a s^2 b (Korthikanti et al. 2022, equation 1), and 2 s b h if
# all is recomputed. Row statistics are made again, so they are not in it.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/gpt-block.llm
sed 's/^  dtype bf16;/&\n  recompute full;/' "$model" >full.llm

# sequence, batch, hidden, heads, layers; the third is the paper's 22B model
while read -r s b h a layers; do
	set -- --dim seq="$s" --dim batch="$b" --dim hidden="$h" \
		--dim heads="$a" --dim layers="$layers"
	want=$((layers * (34 * s * b * h + 5 * a * s * s * b)))
	have=$(saved "$@" "$model")
	full=$(saved "$@" full.llm)
	if [ "$have" != $want ] || [ "$full" != $((layers * 2 * s * b * h)) ]
	then
		bad "s $s, b $b, h $h, a $a, $layers layers: saved $have," \
			"want $want; recomputed, saved $full"
	fi
done <<'END'
32 4 64 4 1
48 3 96 8 2
2048 4 6144 64 48
END

# what is rebuilt is what was saved, masks and all
"$LLMC" eval "$model" --steps 3 --dim layers=2 >a &&
	"$LLMC" eval full.llm --steps 3 --dim layers=2 >b &&
	cmp a b || bad 'what is rebuilt is something else'
exit $failed
