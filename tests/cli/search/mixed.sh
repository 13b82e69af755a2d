#!/bin/sh
# Clusters of several kinds of node, looked at from outside: who lies where is
# on the screen and in plan.json, the slower kind has fewer layers, a plan
# reads back at its price, two groups that are alike are one, and what is
# refused says why.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/llama-2-7b.llm

# group NAME ACCELERATOR DEVICES NODES
group()
{
	echo "target $1 { accelerator = \"$2\"; devices = $3; nodes = $4; }"
}

{
	group fast h100 8 1
	group slow a100-sxm 8 1
} >mixed.target

# ---- the answer says what lies where, on a screen of 80 columns

run --target mixed.target "$model"
cp out screen
found=$(step_of out)
awk '
	length($0) > 80 && !/^target / { print; bad = 1 }
	/8 of 8 h100-sxm, 8 of 8 a100-sxm/ { groups++ }
	/^layers .* on h100-sxm \(pp 0\), .* on a100-sxm \(pp 1\)$/ {
		places = $2 + $7 == 32 && $2 > $7
	}
	END { exit bad || NR > 42 || groups != 1 || !places }' screen ||
	bad 'the screen'

run --target mixed.target --emit=answer-json "$model"
tr -d ' \n' <out >json
for field in '"groups":[{"device":"h100-sxm","devices":8,"nodes":1,"used":8},{"device":"a100-sxm","devices":8,"nodes":1,"used":8}]' \
	'"device_groups":[{"devices":"h100-sxm","first":0,"last":0,"layers":' \
	'{"devices":"a100-sxm","first":1,"last":1,"layers":' \
	'"device":"h100-sxmanda100-sxm"'; do
	grep -qF -e "$field" json || bad "plan.json lacks $field"
done

run --target mixed.target --explain=search "$model"
grep -q ': a gap of 0.0%$' out || bad 'no gap is printed'
grep -qx "    of kinds of node in the target's order alone" out ||
	bad 'nobody says that other orders are not in the space'
run --target h100x8 --explain=search "$model"
grep -q 'kinds of node' out && bad 'one kind has an order'

# a kind that is not worth its wait has no rank
run --target mixed.target --pin pp=1,microbatch=1 "$model"
grep -q '^ *8 of 8 h100-sxm, 0 of 8 a100-sxm$' out ||
	bad 'all devices have a rank'

# ---- read back, twice the same; fixed keys, also with stages given

run --target mixed.target --emit=plan "$model"
cp out plan
run --target mixed.target --plan plan "$model"
[ "$(step_of out)" = "$found" ] ||
	bad "$found ms are $(step_of out) when it is read back"
cmp out screen || bad 'another screen of the same plan'
run --target mixed.target "$model"
cmp out screen || bad 'two runs differ'
run --target mixed.target --pin pp=2,dp=8,stages=even "$model"
grep -q '^layers *16 on h100-sxm (pp 0), 16 on a100-sxm (pp 1)$' out ||
	bad 'even stages'
# the slower kind counts wherever data ranks lie on both
run --target mixed.target --pin dp=16,microbatch=1 "$model"
grep -q '^layers *32 on h100-sxm and a100-sxm (all ranks)$' out ||
	bad 'data ranks on both kinds'
on_both=$(step_of out)
run --target a100-sxmx8x2 --pin dp=16,microbatch=1 "$model"
awk -v both="$on_both" -v slow="$(step_of out)" \
	'BEGIN { exit !(both >= slow && both < slow * 1.02) }' ||
	bad "$on_both ms on both kinds, $(step_of out) on the slower one"

# ---- groups that are alike

{
	group a h100 8 1
	group b h100 8 1
} >alike.target
alike()
{
	run --target h100x8x2 "$@"
	cp out one
	run --target alike.target "$@"
	cmp out one || bad "$*: alike is not the same"
}
for emit in plan 'plans --top=5' cost memory; do
	# shellcheck disable=SC2086 # an option after its value
	alike --emit=$emit "$model"
done
alike --pin ep=8 --emit=plan "$examples/mixtral-8x7b.llm"

# ---- refused

model=$examples/llama-2-7b.llm
for what in '-o made' --emit=cuda --emit=llvm; do
	# shellcheck disable=SC2086 # an option and its value
	refused 'mixed.target:2:1: error: all ranks run one program, and a100-sxm is sm_80 while h100-sxm is sm_90a' \
		--target mixed.target $what "$model"
	[ ! -e made ] || bad "$what left something"
done
{
	group large h100 1 1
	group small a100-sxm 1 1 | sed 's/}/memory = 16; reserve = 0.9; }/'
} >small.target
refused ' bytes of 15,100,000,000 on rank 0 of the pipeline, on h100-sxm and a100-sxm (' \
	--target small.target --pin dp=2,offload=optimizer "$model"
grep -q 'one fits without dp=2: .*(pp=2)$' err ||
	bad 'stages need not fit on both'
exit $failed
