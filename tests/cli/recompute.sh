#!/bin/sh
# Any part of what repeats keep can be dropped: training is the same to the
# last bit, and fewer bytes are kept, unless inputs had to be.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
top=${top_srcdir:?}/examples

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
	for seed in 1 2 3 4 5 6 7 8; do
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
