#!/bin/sh
# Perplexity of a trained model by programs that store weights or the cache in
# fewer bits: within 1% of what PyTorch computes with the same numbers rounded,
# and nearer to that than to any other form's. tests/interop/make_perplexity.py
# made the model and PyTorch's figures.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
from=$tests/interop/perplexity
work=prompt=96,output=32,context=128,tokens=16,rows=16,keys=256,slots=256

# The program as it is linked, with losses in place of `generate`.
generate_is serve-loss.c

# loss FORM OPTION..: the mean of all tokens, to $loss
loss()
{
	form=$1
	shift
	more=
	[ "$form" = declared ] || more=,$form
	run --serve --draft --workload "$work$more" "$@" -o served model.llm ||
		exit
	./served/rank generate --local --weights "$from" --prompt-file \
		"$from/tokens.bin" >out 2>err || fail "$form $*"
	loss=$(sed -n 's/^3048 tokens: \([0-9.]*\)$/\1/p' out)
	[ "$loss" ] || fail "$form $*: $(cat out)"
	rm -r served
}

# near A B PERPLEXITY: whether those of two losses differ by so large a part
near()
{
	awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN {
		d = exp(a - b) - 1; exit !(d < most && -d < most) }'
}

run import "$from" -o model.llm || exit
declared=
while read -r form want; do
	loss "$form" --target cpux1
	declared=${declared:-$loss}
	near "$loss" "$want" 0.01 ||
		bad "$form: a loss of $loss, and $want by PyTorch"
	# Other forms are farther away. What is left is that programs compute in
	# f32, and that PyTorch rounds to f32 before it rounds to f8e4m3.
	near "$loss" "$want" 1e-5 ||
		bad "$form: a loss of $loss, not $want by PyTorch"
done <"$from/expected.txt"
[ "$(wc -l <"$from/expected.txt")" -eq 6 ] || bad 'not six forms'
cut -d ' ' -f 2 "$from/expected.txt" | sort -n | awk '
	NR > 1 && exp($1 - last) - 1 < 1e-4 { print; bad = 1 } { last = $1 }
	END { exit bad }' || bad 'two forms have one perplexity'

# A program that does not round is not within 1% of one with four bits.
want=$(sed -n 's/^weights=int4 //p' "$from/expected.txt")
! near "$declared" "$want" 0.01 || bad 'numbers that are not rounded pass'

loss weights=int4 --target cpux4 --pin tp=2,pp=2
near "$loss" "$want" 1e-5 || bad "on four ranks: $loss, not $want by PyTorch"
exit $failed
