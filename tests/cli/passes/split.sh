#!/bin/sh
# eval with a plan: all ranks against one, from the command line; every
# example becomes rank programs that read back; what is refused, and how.
. "${top_srcdir:?}/tests/lib.sh"

# same MODEL PINS: the split program is the program
same()
{
	run eval --compare --steps 2 --pin "$2" "$examples/$1.llm" || return
	grep -q '^compared [1-9]' out || bad "$1 $2: not compared"
}

same tiny-dense tp=3,dp=2,zero=1
same tiny-dense cp=2,balanced=on,tp=2,sequence=on
same tiny-dense cp=3,context=gather,dp=2,microbatch=1,zero=3
same tiny-dense pp=2,schedule=zb_h1,microbatch=1,recompute=q+silu
same tiny-moe ep=3,pp=2,microbatch=1,mesh=tp+ep+pp+cp+dp
same gpt-block tp=3,dp=2,recompute=attention,zero=2

# Twice the same is the same to the last byte.
set -- --pin tp=2,pp=2,microbatch=1 "$examples/tiny-moe.llm"
run --emit=ranks "$@" -o a
run --emit=ranks "$@"
cmp out a || bad 'two runs differ'
# Rank programs run from their text as they do from the model.
run eval "$@"
mv out b
run eval a
cmp out b || bad 'the text runs otherwise'

set -- pp=4,schedule=zb_h1,tp=2,microbatch=1,balanced=on,cp=2
! have time ||
	set -- tp=8,pp=2,dp=4,microbatch=1,zero=1 \
		tp=4,sequence=on,cp=2,dp=2,zero=3,microbatch=1,recompute=full \
		pp=4,interleave=2,microbatch=1,dp=8,zero=2 "$@"
for pins; do
	for file in "$examples"/*.llm; do
		layers=
		case $file in
		*tiny* | *gpt-b*) continue ;;
		*22b*) layers='--dim batch=8' ;;
		esac
		# shellcheck disable=SC2086
		run --emit=ranks --verify-each $layers --pin "$pins" "$file" \
			-o ranks || continue
		sed '/^#/d' ranks >text
		"$LLMC" opt ranks | cmp - text ||
			bad "$file $pins: reads back otherwise"
	done
done

set -- "$examples/tiny-dense.llm"
refused '1 to 256 is legal' eval --pin tp=999 "$@"
refused '`pp` from 1 to 2 is legal' eval --pin pp=3,microbatch=1 "$@"
refused '1 to 4 is legal' eval --pin dp=5 "$@"
refused 'no experts' eval --pin ep=2 "$@"
refused '1 to 16 is legal' eval --pin cp=17 "$@"
refused 'steps is 0' eval --pin tp=2 --steps 0 "$@"
refused 'applies to the whole model' eval --pin tp=2 --checksum q "$@"
refused 'holds rank programs' eval --compare a
refused 'a plan applies to a model' eval a --pin tp=2
sed 's/ send \(.*\) name="x.0"/ send \1 name="y.0"/' a >sent.ir
refused 'x.0' eval sent.ir
sed 's/ on=tp : f32\[batch:mb, seq, hidden\]/& /; /stage1_forward/q' a >half.ir
refused expected eval half.ir
exit $failed
