#!/bin/sh
# Any part of what repeats keep can be dropped: training is the same to the
# last bit, and fewer bytes are kept, unless inputs had to be.
. "${top_srcdir:?}/tests/lib.sh"

# The names of docs/plan.md: those that each model keeps something by.
while read -r model names; do
	set -- --dim layers=2 "$examples/$model.llm"
	none=$(saved "$@")
	run eval --steps 3 "$@"
	mv out none
	for seed in 1 2 3 4; do
		today 3 || continue
		some=$(echo "$names" | awk -v seed=$seed '{
			srand(seed)
			for (i = 1; i <= NF; i++)
				if (rand() < 0.4 || i == seed)
					out = out (out ? "+" : "") $i
			print out
		}')
		less=$(saved --stats --pin "recompute=$some" "$@")
		[ "$less" -lt "$none" ] || grep -q 'inputs kept' err ||
			bad "$model: without $some saved $less, with $none"
		run eval --passes=train --pin "recompute=$some" --steps 3 "$@"
		cmp out none || bad "$model: without $some another training"
	done
done <<'END'
gpt-block n q k v p dropout_mask mul a m add g x
tiny-dense n v rope a m dot silu g x
tiny-moe n v rope a m s e sum w dot_at silu g y
END

# Attention that is written out is attention: what is left is 34 s b h.
a=$(saved --pin recompute=attention "$examples/gpt-block.llm")
[ "$a" -eq $((34 * 32 * 4 * 64)) ] ||
	bad "gpt-block without attention: saved $a"
sed 's/^  dtype bf16;/&\n  recompute attention;/' "$examples/gpt-block.llm" \
	>hint.llm
[ "$(saved -Werror hint.llm)" = "$a" ] || bad 'a hint drops something else'

# Stage by stage: in all orders of four sets the ranks do what one does, and a
# stage holds what it holds if all drop its set.
held()
{
	"$LLMC" --emit=memory-json --dim layers=4 "$examples/tiny-dense.llm" \
		--pin "pp=2,microbatch=1,stages=1+3,recompute=$1" |
		sed -n 's/.*"stage": \([0-9]*\),.*"saved_bytes": \([0-9]*\),.*/\1 \2/p'
}
for first in none attention full "(n+silu)"; do
	for last in none attention full '(n+silu)'; do
		today 3 || continue
		pins="pp=2,microbatch=1,stages=1+3,recompute=$first*1+$last*1"
		run eval --compare --steps 2 --dim layers=4 --pin "$pins" \
			"$examples/tiny-dense.llm"
		held "$first*1+$last*1" >both
		{
			held "$first*2" | sed -n 1p
			held "$last*2" | sed -n 2p
		} >each
		[ "$(wc -l <both)" -eq 2 ] && cmp both each || bad "$pins"
	done
done
# The numbers are those of all that is kept, bit by bit; neighbours that drop
# the same share one repeat.
set -- --dim layers=4 --pin pp=4,microbatch=1 "$examples/tiny-dense.llm"
run eval --steps 3 "$@"
mv out none
run eval --steps 3 --pin 'recompute=full*1+g*2+none*1' "$@"
cmp out none || bad 'stage by stage it is another training'
run --emit=ir --passes=train --pin 'recompute=full*1+g*2+none*1' "$@"
[ "$(grep -c '= repeat count=2 start=1 ' out)" -eq 2 ] &&
	[ "$(grep -c '= repeat ' out)" -eq 6 ] || bad 'neighbours share nothing'

# What is not kept anyway is said, with what is; a slip is refused.
run --passes=train --pin recompute=q "$examples/tiny-dense.llm"
grep -q 'no repeat keeps `q` for backward; kept are x, n, v,' err ||
	bad 'no word of what is not kept'
refused 'did you mean `silu`' --passes=train --pin recompute=sulu \
	"$examples/tiny-dense.llm"
exit $failed
