#!/bin/sh
# --emit=arena: where everything lies, checked by running all ranks on a memory
# of stamps, and held to what --emit=memory counts before there are kernels.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
top=${top_srcdir:?}/examples
fail=0

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
	}' || fail=1
}

# hold PARTS STAGES MODEL OPTIONS: the two beside each other
hold()
{
	parts=$1 n=$2 model=$3
	shift 3
	"$LLMC" --emit=memory-json "$@" "$top/$model.llm" >"$tmp/m" &&
		"$LLMC" --emit=arena-json "$@" "$top/$model.llm" >"$tmp/a" ||
		{ fail=1; return; }
	i=0
	while [ "$i" -lt "$n" ]; do
		for kind in weight gradient; do
			close "$model $* stage $i $kind" \
				"$(number "$tmp/a" stages $i ${kind}s_bytes)" \
				"$(number "$tmp/m" stages $i ${kind}_bytes)" \
				"$parts"
		done
		close "$model $* stage $i optimizer" \
			"$(number "$tmp/a" stages $i optimizer_bytes)" \
			"$(number "$tmp/m" stages $i optimizer_bytes)" "$parts"
		saved=$(number "$tmp/m" stages $i saved_bytes)
		around=$(number "$tmp/m" stages $i around_bytes)
		close "$model $* stage $i saves" "$(($(
			number "$tmp/a" stages $i to_input_bytes) + $(
			number "$tmp/a" stages $i to_weights_bytes)))" \
			"$((saved + around))" "$parts"
		i=$((i + 1))
	done
}

# Inputs and the loss are all that is counted elsewhere: below 1 in 10,000.
hold 1 4 llama-2-70b --pin tp=8,pp=4,dp=4,microbatch=1,zero=1
hold 1 1 llama-3-8b --pin dp=8,zero=2,microbatch=1
hold 1 8 llama-2-70b --pin tp=8,pp=4,microbatch=1,recompute=full,interleave=2
hold 1 2 mixtral-8x7b --pin ep=8,pp=2,microbatch=1
# Tiny tensors are rounded to 256 bytes.
hold 300 2 tiny-dense --pin pp=2,microbatch=1
hold 300 2 tiny-moe --pin pp=2,ep=2,microbatch=1

# ---- published figures ----

"$LLMC" --emit=arena-json "$top/llama-2-70b.llm" >"$tmp/a" || fail=1
close weights-bf16 "$(number "$tmp/a" ranks 0 weights_bytes)" 140000000000 300
close grads-bf16 "$(number "$tmp/a" ranks 0 gradients_bytes)" 140000000000 300
close adam-states "$(number "$tmp/a" ranks 0 optimizer_bytes)" 840000000000 300
"$LLMC" --emit=arena-json --dim hidden=8192 --dim heads=64 --dim layers=80 \
	--dim seq=4096 --dim batch=8 --pin recompute=attention \
	"$top/gpt-block.llm" >"$tmp/a" || fail=1
close act-formula "$(number "$tmp/a" stages 0 to_input_bytes)" \
	730000000000 200
for n in 2 4 8; do
	"$LLMC" --emit=arena-json --dim layers=8 --dim batch=16 \
		--pin pp=$n,microbatch=1 "$top/gpt-block.llm" >"$tmp/a" ||
		fail=1
	close "pp-in-flight $n" "$(number "$tmp/a" stages 0 to_input_slots)" \
		$n 0
done

# ---- checked ----

for plan in pp=1 microbatch=1 pp=2,microbatch=1 recompute=full \
	pp=2,schedule=gpipe,microbatch=1 pp=2,schedule=zb_h2,microbatch=1 \
	pp=2,tp=2,dp=2,zero=3,microbatch=1,schedule=zb_h1 \
	dp=2,tp=2,sequence=on,zero=2 cp=2,tp=2,zero=1; do
	for model in tiny-dense tiny-moe; do
		"$LLMC" --emit=arena --verify-each --pin $plan \
			"$top/$model.llm" >"$tmp/a" || {
			echo "FAIL $model $plan"
			fail=1
		}
	done
done

# A schedule that takes values in another order than they are sent in needs
# more places for them; with two it would stall.
printf '%s\n' '0F0,0F1,0F2,0F3,0B3,0B2,0B1,0B0' \
	'1F3,1B3,1F2,1B2,1F1,1B1,1F0,1B0' >"$tmp/back.csv"
"$LLMC" --emit=arena-json --verify-each \
	--pin "pp=2,microbatch=1,schedule=\"$tmp/back.csv\"" \
	"$top/tiny-dense.llm" >"$tmp/a" || fail=1
grep -q '"kind": "pipeline".*"copies": 4' "$tmp/a" || {
	echo 'FAIL copies of what waits'
	fail=1
}

# What is not ours counts, and what does not fit is said.
echo 'plan { microbatch = 1; }' >"$tmp/one.llp"
echo 'plan { dp = 4; }' >"$tmp/four.llp"
"$LLMC" --emit=arena --target a100-40g --plan "$tmp/one.llp" \
	"$top/llama-2-7b.llm" >"$tmp/a" || fail=1
grep -q 'too much by' "$tmp/a" || {
	echo 'FAIL 7B on 40 GB'
	fail=1
}
"$LLMC" --emit=arena --target h100x2 --plan "$tmp/four.llp" \
	"$top/tiny-dense.llm" >"$tmp/a" 2>"$tmp/e"
[ $? = 1 ] && [ ! -s "$tmp/a" ] && grep -q 'the plan has 4 ranks' "$tmp/e" || {
	echo 'FAIL too few devices'
	fail=1
}
exit $fail
