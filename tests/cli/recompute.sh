#!/bin/sh
# Any part of what repeats keep can be dropped: training is the same to the
# last bit, and fewer bytes are kept, unless inputs had to be.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
top=${top_srcdir:?}/examples
seeds='1 2 3 4 5 6 7 8' firsts="none attention full (n+silu)"
if [ "${SLOW_TESTS-}" = skip ]; then
	seeds='1 2' firsts='attention'
fi

# saved ARGUMENTS...: bytes that repeats keep; counts of passes in $tmp/stats
saved()
{
	"$LLMC" --passes=train --verify-each --stats --emit=summary-json \
		"$@" 2>"$tmp/stats" |
		sed -n 's/.*"saved_bytes": *\([0-9]*\).*/\1/p'
}

# The names of docs/plan.md: those that each model keeps something by.
while read -r model names; do
	set -- --dim layers=2 "$top/$model.llm"
	none=$(saved "$@")
	"$LLMC" eval --steps 3 "$@" >"$tmp/none" || exit 1
	for seed in $seeds; do
		some=$(echo "$names" | awk -v seed=$seed '{
			srand(seed)
			for (i = 1; i <= NF; i++)
				if (rand() < 0.4 || i == seed)
					out = out (out ? "+" : "") $i
			print out
		}')
		less=$(saved --pin "recompute=$some" "$@")
		"$LLMC" eval --passes=train --pin "recompute=$some" --steps 3 "$@" \
			>"$tmp/some" || exit 1
		cmp "$tmp/some" "$tmp/none" || exit 1
		if [ "$less" -ge "$none" ] &&
		   ! grep -q 'inputs kept' "$tmp/stats"; then
			echo "$model: without $some saved $less, with $none"
			exit 1
		fi
	done
done <<'END'
gpt-block n q k v p dropout_mask mul a m add g x
tiny-dense n v rope a m dot silu g x
tiny-moe n v rope a m s e sum w dot_at silu g y
END

# Attention that is written out is attention: what is left is 34 s b h.
a=$(saved --pin recompute=attention "$top/gpt-block.llm")
[ "$a" -eq $((34 * 32 * 4 * 64)) ] || {
	echo "gpt-block without attention: saved $a"
	exit 1
}
sed 's/^  dtype bf16;/&\n  recompute attention;/' "$top/gpt-block.llm" \
	>"$tmp/hint.llm"
[ "$(saved -Werror "$tmp/hint.llm")" = "$a" ] || exit 1

# Stage by stage: in all orders of four sets the ranks do what one does, and a
# stage holds what it holds if all drop its set.
held()
{
	"$LLMC" --emit=memory-json --dim layers=4 "$top/tiny-dense.llm" --pin \
		"pp=2,microbatch=1,stages=1+3,recompute=$1" |
		sed -n 's/.*"stage": \([0-9]*\),.*"saved_bytes": \([0-9]*\),.*/\1 \2/p'
}
for first in $firsts; do
	for last in none attention full '(n+silu)'; do
		pins="pp=2,microbatch=1,stages=1+3,recompute=$first*1+$last*1"
		"$LLMC" eval --compare --steps 2 --dim layers=4 --pin "$pins" \
			"$top/tiny-dense.llm" >"$tmp/o" || exit 1
		held "$first*1+$last*1" >"$tmp/both"
		{
			held "$first*2" | sed -n 1p
			held "$last*2" | sed -n 2p
		} >"$tmp/each"
		[ "$(wc -l <"$tmp/both")" -eq 2 ] || exit 1
		cmp "$tmp/both" "$tmp/each" || exit 1
	done
done
# The numbers are those of all that is kept, bit by bit; neighbours that drop
# the same share one repeat.
set -- --dim layers=4 --pin pp=4,microbatch=1 "$top/tiny-dense.llm"
"$LLMC" eval --steps 3 "$@" >"$tmp/none" || exit 1
"$LLMC" eval --steps 3 --pin 'recompute=full*1+g*2+none*1' "$@" |
	cmp - "$tmp/none" || exit 1
"$LLMC" --emit=ir --passes=train --pin 'recompute=full*1+g*2+none*1' "$@" \
	>"$tmp/ir" || exit 1
grep -c '= repeat count=2 start=1 ' "$tmp/ir" | grep -qx 2 || exit 1
grep -c '= repeat ' "$tmp/ir" | grep -qx 6 || exit 1

# What is not kept anyway is said, with what is; a slip is refused.
"$LLMC" --passes=train -o "$tmp/o" --pin recompute=q "$top/tiny-dense.llm" \
	2>"$tmp/err" || exit 1
grep -q 'no repeat keeps `q` for backward; kept are x, n, v,' "$tmp/err" || {
	cat "$tmp/err"
	exit 1
}
if "$LLMC" --passes=train --pin recompute=sulu "$top/tiny-dense.llm" \
	>"$tmp/o" 2>"$tmp/err" || ! grep -q 'did you mean `silu`' "$tmp/err"
then
	cat "$tmp/err"
	exit 1
fi
