#!/bin/sh
# eval with a plan: all ranks against one, from the command line; every
# example becomes rank programs that read back; what is refused, and how.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
examples=${top_srcdir:?}/examples
failed=0

wrong()
{
	echo "$1"
	failed=1
}

# same MODEL PINS: the split program is the program
same()
{
	"$LLMC" eval --compare --steps 2 --pin "$2" "$examples/$1.llm" \
		>"$tmp/out" 2>"$tmp/err" || {
		cat "$tmp/err"
		wrong "$1 $2: refused"
		return
	}
	grep -q '^compared [1-9]' "$tmp/out" || wrong "$1 $2: not compared"
}

same tiny-dense tp=3,dp=2,zero=1
same tiny-dense cp=2,balanced=on,tp=2,sequence=on
same tiny-dense cp=3,context=gather,dp=2,microbatch=1,zero=3
same tiny-dense pp=2,schedule=zb_h1,microbatch=1,recompute=q+silu
same tiny-moe ep=3,pp=2,microbatch=1,mesh=tp+ep+pp+cp+dp
same gpt-block tp=3,dp=2,recompute=attention,zero=2

# Twice the same is the same to the last byte.
"$LLMC" --emit=ranks --pin tp=2,pp=2,microbatch=1 "$examples/tiny-moe.llm" \
	>"$tmp/a" || exit 1
"$LLMC" --emit=ranks --pin tp=2,pp=2,microbatch=1 "$examples/tiny-moe.llm" |
	cmp - "$tmp/a" || failed=1
# Rank programs run from their text as they do from the model.
"$LLMC" eval --pin tp=2,pp=2,microbatch=1 "$examples/tiny-moe.llm" >"$tmp/b"
"$LLMC" eval "$tmp/a" | cmp - "$tmp/b" || wrong 'the text runs otherwise'

set -- pp=4,schedule=zb_h1,tp=2,microbatch=1,balanced=on,cp=2
[ "${SLOW_TESTS-}" = skip ] ||
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
		"$LLMC" --emit=ranks --verify-each $layers --pin "$pins" \
			"$file" >"$tmp/ranks" || {
			wrong "$file $pins: refused"
			continue
		}
		sed '/^#/d' "$tmp/ranks" >"$tmp/text"
		"$LLMC" opt "$tmp/ranks" | cmp - "$tmp/text" ||
			wrong "$file $pins: reads back otherwise"
	done
done

# refused PATTERN ARGUMENTS...
refused()
{
	pattern=$1
	shift
	"$LLMC" eval "$@" >"$tmp/out" 2>"$tmp/err"
	[ $? -eq 1 ] || wrong "$*: exit status"
	[ -s "$tmp/out" ] && wrong "$*: partial output"
	grep -q "$pattern" "$tmp/err" || {
		cat "$tmp/err"
		wrong "$*: no message says \`$pattern'"
	}
}

cd "$examples" || exit 99
refused '1 to 256 is legal' --pin tp=999 tiny-dense.llm
refused '`pp` from 1 to 2 is legal' --pin pp=3,microbatch=1 tiny-dense.llm
refused '1 to 4 is legal' --pin dp=5 tiny-dense.llm
refused 'no experts' --pin ep=2 tiny-dense.llm
refused '1 to 16 is legal' --pin cp=17 tiny-dense.llm
refused 'steps is 0' --pin tp=2 --steps 0 tiny-dense.llm
refused 'goes with the whole model' --pin tp=2 --checksum q tiny-dense.llm
refused 'is rank programs' --compare "$tmp/a"
refused 'a plan goes with a model' "$tmp/a" --pin tp=2
sed 's/ send \(.*\) name="x.0"/ send \1 name="y.0"/' "$tmp/a" >"$tmp/sent.ir"
refused 'x\.0' "$tmp/sent.ir"
sed 's/ on=tp : f32\[batch:mb, seq, hidden\]/& /; /stage1_forward/q' \
	"$tmp/a" >"$tmp/half.ir"
refused 'expected' "$tmp/half.ir"

exit $failed
