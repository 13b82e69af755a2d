#!/bin/sh
# Clusters of several kinds of node, looked at from outside: who lies where is
# on the screen and in plan.json, the slower kind has fewer layers, a plan
# reads back at its price, two groups that are alike are one, and what is
# refused says why.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
examples=${top_srcdir:?}/examples
model=$examples/llama-2-7b.llm
fail=0

bad()
{
	echo "FAIL $*"
	fail=1
}

run()
{
	"$LLMC" -w "$@" >"$tmp/out" 2>"$tmp/err" || {
		cat "$tmp/err"
		bad "$@"
	}
}

# refused WORDS ARGUMENTS..: exit 1, nothing printed, the words in the error
refused()
{
	words=$1
	shift
	"$LLMC" -w "$@" >"$tmp/out" 2>"$tmp/err"
	status=$?
	if [ $status -ne 1 ] || [ -s "$tmp/out" ] ||
		! grep -qF -e "$words" "$tmp/err"; then
		bad "$* exits with $status, not: $words"
		cat "$tmp/err"
	fi
}

step()
{
	sed -n 's/^step *\([0-9.]*\) ms$/\1/p' "$tmp/out"
}

# group NAME ACCELERATOR DEVICES NODES
group()
{
	echo "target $1 { accelerator = \"$2\"; devices = $3; nodes = $4; }"
}

{
	group fast h100 8 1
	group slow a100-sxm 8 1
} >"$tmp/mixed.target"

# ---- the answer says what lies where, on a screen of 80 columns

run --target "$tmp/mixed.target" "$model"
cp "$tmp/out" "$tmp/screen"
found=$(step)
awk '
	length($0) > 80 && !/^target / { print; bad = 1 }
	/8 of 8 h100-sxm, 8 of 8 a100-sxm/ { groups++ }
	/^layers .* on h100-sxm \(pp 0\), .* on a100-sxm \(pp 1\)$/ {
		places = $2 + $7 == 32 && $2 > $7
	}
	END { exit bad || NR > 42 || groups != 1 || !places }' \
	"$tmp/screen" || {
	cat "$tmp/screen"
	bad 'the screen'
}

run --target "$tmp/mixed.target" --emit=answer-json "$model"
tr -d ' \n' <"$tmp/out" >"$tmp/json"
for field in '"groups":[{"device":"h100-sxm","devices":8,"nodes":1,"used":8},{"device":"a100-sxm","devices":8,"nodes":1,"used":8}]' \
	'"places":[{"devices":"h100-sxm","first":0,"last":0,"layers":' \
	'{"devices":"a100-sxm","first":1,"last":1,"layers":' \
	'"device":"h100-sxmanda100-sxm"'; do
	grep -qF -e "$field" "$tmp/json" || bad "plan.json lacks $field"
done

run --target "$tmp/mixed.target" --explain=search "$model"
grep -q ': a gap of 0.0%$' "$tmp/out" || bad 'no gap is printed'

# a kind that is not worth its wait has no rank
run --target "$tmp/mixed.target" --pin pp=1,microbatch=1 "$model"
grep -q '^ *8 of 8 h100-sxm, 0 of 8 a100-sxm$' "$tmp/out" ||
	bad 'all devices have a rank'

# ---- read back, twice the same; fixed keys, also with stages given

run --target "$tmp/mixed.target" --emit=plan "$model"
cp "$tmp/out" "$tmp/plan"
run --target "$tmp/mixed.target" --plan "$tmp/plan" "$model"
[ "$(step)" = "$found" ] || bad "$found ms are $(step) when it is read back"
cmp "$tmp/out" "$tmp/screen" || bad 'another screen of the same plan'
run --target "$tmp/mixed.target" "$model"
cmp "$tmp/out" "$tmp/screen" || bad 'two runs differ'
run --target "$tmp/mixed.target" --pin pp=2,dp=8,stages=even "$model"
grep -q '^layers *16 on h100-sxm (pp 0), 16 on a100-sxm (pp 1)$' "$tmp/out" ||
	bad 'even stages'
# the slower kind counts wherever data ranks lie on both
run --target "$tmp/mixed.target" --pin dp=16,microbatch=1 "$model"
grep -q '^layers *32 on h100-sxm and a100-sxm (all ranks)$' "$tmp/out" ||
	bad 'data ranks on both kinds'
on_both=$(step)
run --target a100-sxmx8x2 --pin dp=16,microbatch=1 "$model"
awk -v both="$on_both" -v slow="$(step)" \
	'BEGIN { exit !(both >= slow && both < slow * 1.02) }' ||
	bad "$on_both ms on both kinds, $(step) on the slower one"

# ---- groups that are alike

{
	group a h100 8 1
	group b h100 8 1
} >"$tmp/alike.target"
for model in llama-2-7b mixtral-8x7b; do
	for emit in plan plans cost memory; do
		set -- --emit=$emit "$examples/$model.llm"
		[ $emit != plans ] || set -- --top=5 "$@"
		run --target h100x8x2 "$@"
		cp "$tmp/out" "$tmp/one"
		run --target "$tmp/alike.target" "$@"
		cmp "$tmp/out" "$tmp/one" || bad "$*: alike is not the same"
	done
done

# ---- refused

model=$examples/llama-2-7b.llm
for what in "-o $tmp/made" --emit=cuda --emit=llvm; do
	# shellcheck disable=SC2086 # an option and its value
	refused 'mixed.target:2:1: error: all ranks run one program, and a100-sxm is sm_80 while h100-sxm is sm_90a' \
		--target "$tmp/mixed.target" $what "$model"
	[ ! -e "$tmp/made" ] || bad "$what left something"
done
{
	group large h100 1 1
	group small t4 1 1
} >"$tmp/small.target"
refused ' bytes of 15,100,000,000 on rank 0 of the pipeline, on h100-sxm and t4 (' \
	--target "$tmp/small.target" --pin dp=2 "$model"
grep -q 'one fits without dp=2: .*(pp=2)$' "$tmp/err" ||
	bad 'stages need not fit on both'
exit $fail
