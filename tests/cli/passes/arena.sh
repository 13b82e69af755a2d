#!/bin/sh
# --emit=arena: where everything lies, checked by running all ranks on a memory
# of stamps, beside sums by arithmetic; --emit=memory prints the same plan.
. "${top_srcdir:?}/tests/lib.sh"

# number FILE LIST N KEY: "KEY" of the N-th line of "LIST"
number()
{
	sed -n "/\"$2\": \\[/,/\\]/s/^ *{\"[a-z]*\": $3, .*\"$4\": \\([0-9]*\\).*/\\1/p" \
		"$1"
}

# close WHAT HAVE WANT PARTS: so many parts of ten thousand apart
close()
{
	awk -v what="$1" -v have="$2" -v want="$3" -v parts="$4" 'BEGIN {
		off = have > want ? have - want : want - have
		if (have == "" || want == "" || off * 10000 > parts * want) {
			printf "FAIL %s: %.0f, counted %.0f\n", what, have, want
			exit 1
		}
	}' || failed=1
}

# same STAGES MODEL OPTIONS: --emit=memory and --emit=arena beside each other
same()
{
	n=$1 model=$2
	shift 2
	"$LLMC" --emit=memory-json "$@" "$examples/$model.llm" >m &&
		"$LLMC" --emit=arena-json "$@" "$examples/$model.llm" >a ||
		bad "$model $*" || return
	i=0
	while [ "$i" -lt "$n" ]; do
		for kind in weight gradient; do
			close "$model $* stage $i $kind" \
				"$(number a stages $i ${kind}s_bytes)" \
				"$(number m stages $i ${kind}_bytes)" 0
		done
		close "$model $* stage $i optimizer" \
			"$(number a stages $i optimizer_bytes)" \
			"$(number m stages $i optimizer_bytes)" 0
		saved=$(number m stages $i saved_bytes)
		outside=$(number m stages $i outside_bytes)
		close "$model $* stage $i saves" "$(($(
			number a stages $i to_input_bytes) + $(
			number a stages $i to_weights_bytes)))" \
			"$((saved + outside))" 0
		i=$((i + 1))
	done
}

# weigh PARTS STAGES TP DP MODEL OPTIONS: tensors of all stages beside the sums
# of --emit=summary: bf16 weights and gradients, and 12 bytes of AdamW, which
# ZeRO 1 cuts by DP.
weigh()
{
	parts=$1 n=$2 tp=$3 dp=$4 model=$5
	shift 5
	"$LLMC" --emit=summary-json "$examples/$model.llm" >s &&
		"$LLMC" --emit=arena-json "$@" "$examples/$model.llm" >a ||
		bad "$model $*" || return
	for kind in weights gradients optimizer; do
		sum=0 i=0
		while [ "$i" -lt "$n" ]; do
			sum=$((sum + $(number a stages $i ${kind}_bytes)))
			i=$((i + 1))
		done
		case $kind in
		optimizer) want=$(($(field s optimizer_bytes) / tp / dp)) ;;
		*) want=$(($(field s weight_bytes) / tp)) ;;
		esac
		close "$model $* $kind" "$sum" "$want" "$parts"
	done
}

same 4 llama-2-70b --pin tp=8,pp=4,dp=4,microbatch=1,zero=1
same 1 llama-3-8b --pin dp=8,zero=2,microbatch=1
same 8 llama-2-70b --pin tp=8,pp=4,microbatch=1,recompute=full,interleave=2
same 2 mixtral-8x7b --pin ep=8,pp=2,microbatch=1
same 2 tiny-dense --pin pp=2,microbatch=1
same 2 tiny-moe --pin pp=2,ep=2,microbatch=1

# Norms are whole on each tensor rank: below 2 in 10,000.
weigh 2 4 8 4 llama-2-70b --pin tp=8,pp=4,dp=4,microbatch=1,zero=1
weigh 2 1 1 8 llama-3-8b --pin dp=8,zero=1,microbatch=1
weigh 2 8 8 1 llama-2-70b \
	--pin tp=8,pp=4,microbatch=1,recompute=full,interleave=2
# Tiny tensors are rounded to 256 bytes.
weigh 300 2 1 1 tiny-dense --pin pp=2,microbatch=1

# ---- published figures ----

run --emit=arena-json "$examples/llama-2-70b.llm"
close weights-bf16 "$(number out ranks 0 weights_bytes)" 140000000000 300
close grads-bf16 "$(number out ranks 0 gradients_bytes)" 140000000000 300
close adam-states "$(number out ranks 0 optimizer_bytes)" 840000000000 300
run --emit=arena-json --dim hidden=8192 --dim heads=64 --dim layers=80 \
	--dim seq=4096 --dim batch=8 --pin recompute=attention \
	"$examples/gpt-block.llm"
close act-formula "$(number out stages 0 to_input_bytes)" 730000000000 200
for n in 2 4 8; do
	run --emit=arena-json --dim layers=8 --dim batch=16 \
		--pin pp=$n,microbatch=1 "$examples/gpt-block.llm"
	close "pp-in-flight $n" "$(number out stages 0 to_input_slots)" $n 0
done

# ---- checked ----

for plan in pp=1 microbatch=1 pp=2,microbatch=1 recompute=full \
	pp=2,schedule=gpipe,microbatch=1 pp=2,schedule=zb_h2,microbatch=1 \
	pp=2,tp=2,dp=2,zero=3,microbatch=1,schedule=zb_h1 \
	dp=2,tp=2,sequence=on,zero=2 cp=2,tp=2,zero=1; do
	for model in tiny-dense tiny-moe; do
		run --emit=arena --verify-each --pin $plan \
			"$examples/$model.llm"
	done
done

# A schedule that takes values in another order than they are sent in needs
# more places for them; with two it would stall.
printf '%s\n' '0F0,0F1,0F2,0F3,0B3,0B2,0B1,0B0' \
	'1F3,1B3,1F2,1B2,1F1,1B1,1F0,1B0' >back.csv
run --emit=arena-json --verify-each \
	--pin 'pp=2,microbatch=1,schedule="back.csv"' "$examples/tiny-dense.llm"
grep -q '"kind": "pipeline".*"copies": 4' out || bad 'copies of what waits'

# What is not ours counts, and what does not fit is said.
echo 'plan { microbatch = 1; }' >one.llp
echo 'plan { dp = 4; }' >four.llp
run --emit=arena --target a100-40g --plan one.llp "$examples/llama-2-7b.llm"
grep -q 'too much by' out || bad '7B on 40 GB'
refused 'the plan has 4 ranks' --emit=arena --target h100x2 --plan four.llp \
	"$examples/tiny-dense.llm"
exit $failed
