#!/bin/sh
# --emit=plans-json: every plan replays to its own price, and no two differ in
# details alone, unless that is asked for.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/gpt2-124m.llm

run --target h100x4 --emit=plans-json --top=8 "$model"
mv out json
plan_texts json >texts
[ "$(wc -l <texts)" -eq 8 ] || bad 'not eight plans'
sed -n 's/.*"rank": [0-9]*, "step_us": \([0-9.e+]*\),.*/\1/p' json >steps
sort -g steps | cmp - steps || bad 'they are not in the order of their steps'

# Each replays to exactly its price, and to the text that it was given as.
n=0
while read -r step <&3 && IFS= read -r text <&4; do
	n=$((n + 1))
	printf '%b' "$text" >plan.llp
	run --target h100x4 --plan plan.llp --emit=answer-json "$model"
	got=$(sed -n '/"step": {/{n;s/.*"us": \([0-9.e+]*\).*/\1/p;}' out)
	[ "$got" = "$step" ] || bad "plan $n: $got us; it was said to be $step"
	run --plan plan.llp --emit=plan "$model"
	cmp out plan.llp || bad "plan $n reads back as another"
done 3<steps 4<texts
[ "$n" -eq 8 ] || bad 'not all were replayed'

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
