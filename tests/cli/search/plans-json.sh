#!/bin/sh
# --emit=plans-json: every plan replays to its own price, and no two differ in
# details alone, unless that is asked for.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/gpt2-124m.llm

# replays N TARGET MODEL PINS..: of N plans each has exactly its price as a plan
# that is given, and its text; without a memo they are the same
replays()
{
	count=$1 target=$2 of=$3
	shift 3
	run --target "$target" --emit=plans-json --top="$count" "$of" "$@" \
		--no-memo
	mv out plain
	run --target "$target" --emit=plans-json --top="$count" "$of" "$@"
	mv out json
	cmp json plain || bad "a memo changes plans of $target"
	plan_texts json >texts
	[ "$(wc -l <texts)" -eq "$count" ] || bad "not $count plans"
	sed -n 's/.*"rank": [0-9]*, "step_us": \([0-9.e+]*\),.*/\1/p' json >steps
	sort -g steps | cmp - steps ||
		bad 'they are not in the order of their steps'
	n=0
	while read -r step <&3 && IFS= read -r text <&4; do
		n=$((n + 1))
		printf '%b' "$text" >plan.llp
		run --target "$target" --plan plan.llp --emit=answer-json "$of"
		got=$(sed -n '/"step": {/{n;s/.*"us": \([0-9.e+]*\).*/\1/p;}' out)
		[ "$got" = "$step" ] ||
			bad "plan $n: $got us; it was said to be $step"
		run --plan plan.llp --emit=plan "$of"
		cmp out plan.llp || bad "plan $n reads back as another"
	done 3<steps 4<texts
	[ "$n" -eq "$count" ] || bad 'not all were replayed'
}

replays 8 h100x4 "$model"
# with dropout, whose masks are no operands of an epilogue's expressions
replays 6 h100x8 "$examples/gpt-block.llm"
# What is placed for one number of data ranks is priced for all of them.
replays 3 h100x8x4 "$examples/mixtral-8x7b.llm" \
	--pin ep=4,zero=1,microbatch=2

# kinds FILE: what a table's plans differ in, with the step of each
kinds()
{
	awk 'NR > 1 {
		sub(/\*[0-9]*,/, ",", $12)
		print $5, $6, $7, $8, $9, $11, $12, $NF == "offload", $2
	}' "$1"
}

# The best of each kind, of all plans in order, is what is printed by default.
run --target h100x4 --emit=plans --top=120 --all-plans "$model"
kinds out >all
awk '{ kind = $0; sub(/ [^ ]*$/, "", kind) } !seen[kind]++' all >firsts
[ "$(wc -l <firsts)" -lt 110 ] || bad 'no two of all plans are alike'
run --target h100x4 --emit=plans --top=10 "$model"
kinds out >distinct
head -n 10 firsts | cmp - distinct || bad 'others are the best of each kind'

refused '--all-plans is about several plans' --target h100x4 --all-plans \
	"$model"
refused '--emit=plans-json needs --target' --emit=plans-json "$model"
exit $failed
