#!/bin/sh
# Figures that anyone can work out on paper for a model, and that published
# articles print: the rows of tests/data/first-principles.tsv, each computed by
# llmc and held to the row's tolerance.  Where an article assumes something
# else, its figure must come out under its assumption, and both are printed.
# Rows without a test are listed, with the reason, in docs/testing.md.
. "${top_srcdir:?}/tests/lib.sh"

rows=$tests/data/first-principles.tsv

# column ID N: of the row, whose first column is its id
column()
{
	awk -F'\t' -v id="$1" -v n="$2" '$1 == id { print $n }' "$rows"
}

# row ID HAVE: held to the row's value and tolerance
row()
{
	echo "$1" >>covered
	near "$1" "$2" "$(column "$1" 6)" "$(column "$1" 8 | tr -d %)"
}

# differs ID HAVE UNDER WHY: what llmc counts is another number, and UNDER
# the article's assumption it is the article's
differs()
{
	row "$1" "$3"
	echo "     $1: $2 without its assumption: $4"
	awk -v have="$2" -v want="$(column "$1" 6)" \
		-v percent="$(column "$1" 8 | tr -d %)" 'BEGIN {
		off = (have - want) / want * 100
		exit have != "" && (off > percent || -off > percent) ? 0 : 1
	}' || bad "$1: it does not differ"
}

# near WHAT HAVE WANT PERCENT
near()
{
	awk -v what="$1" -v have="$2" -v want="$3" -v percent="$4" 'BEGIN {
		off = (have - want) / want * 100
		ok = have != "" && off <= percent && -off <= percent
		printf "%s %s: %g, published %g (%+.2f%%, within %g%%)\n",
			ok ? "ok  " : "FAIL", what, have, want, off, percent
		exit !ok
	}' || failed=1
}

calc()
{
	awk "BEGIN { printf \"%.17g\", $(printf '%s' "$1" | tr '\n\t' '  ') }"
}

summary()
{
	run --emit=summary-json "$@" -o s || exit
}

summary "$examples/llama-2-70b.llm"
params=$(field s parameters)
row train-flops "$(calc "6 * $params * 2.0e12")"
weights=$(field s weight_bytes)
gradients=$(field s gradient_bytes)
optimizer=$(field s optimizer_bytes)
row weights-bf16 "$weights"
row grads-bf16 "$gradients"
row adam-states "$optimizer"
row adam-per-param "$(calc "($(field s weight_bytes) +
	$(field s gradient_bytes) +
	$(field s optimizer_bytes)) / $params")"
# One layer is what two models differ by whose depths differ by one.
sed 's/layers = 80/layers = 81/' "$examples/llama-2-70b.llm" >deeper.llm
run --emit=summary-json deeper.llm -o d || exit
layer=$(calc "$(field d parameters) - $params")
row dp-grad-bytes "$(calc "4 * $layer")"
row dp-layer-flops "$(calc "6 * $layer * 8 * 4096")"
row kv-cache-gqa "$(calc "8 * 4096 * $(sed -n \
	's/.*"kv_cache": \[{"bytes": \([0-9]*\).*/\1/p' s)")"
grep '"flops_per_token"' s >flops
contraction=$(field flops contraction)
echo matmul-flops >>covered
near 'matmul-flops' "$contraction" \
	"$(calc "2 * ($params - 32000 * 8192 - 161 * 8192)")" 0
# Without recomputation, training is three forward passes of matmul work.
attention=$(field flops attention)
near 'fwd-bwd-ratio' "$(calc "1 + $(field flops backward) / ($contraction +
	$attention + $(field flops other))")" 3 0.1

# The same of the backward program itself: three times the contractions, and
# attention's two products forward, five backward (scores are rebuilt).
summary --passes=train "$examples/llama-2-70b.llm"
grep '"flops_per_token"' s >flops
near 'fwd-bwd-contractions' "$(calc "$(field flops contraction) /
	$contraction")" 3 0
near 'fwd-bwd-attention' "$(calc "$(field flops attention) /
	$attention")" 3.5 0
[ "$(field s parameters)" = "$params" ] || bad 'other parameters'

# The same model with keys and values for every head.
sed 's/kv = 8,/kv = 64,/' "$examples/llama-2-70b.llm" >mha.llm
summary mha.llm
cache=$(calc "8 * 4096 * $(sed -n \
	's/.*"kv_cache": \[{"bytes": \([0-9]*\).*/\1/p' s)")
row kv-cache-mha "$cache"
row serve-h100-min "$(calc "int(($weights + $cache) / 80e9) + 1")"

# All of it in fp32.
sed 's/dtype bf16/dtype f32/' "$examples/llama-2-70b.llm" >f32.llm
summary f32.llm
row fp32-per-param "$(calc "($(field s weight_bytes) +
	$(field s gradient_bytes) +
	$(field s optimizer_bytes)) / $params")"

summary "$examples/deepseek-v3.llm"
row r1-bytes "$(field s weight_bytes)"

# ---- recomputation: what is done again is what backward needs

summary --passes=train --pin recompute=full "$examples/llama-2-70b.llm"
again=$(calc "$(sed -n 's/.*"contraction": \([0-9]*\).*/\1/p' s) /
	$contraction")
# the last contraction of a block and the head feed no gradient: not again
last=$(calc "2 * (80 * (8192 * 28672) + 32000 * 8192) / $contraction")
differs fwd-bwd-ratio "$again" "$(calc "$again + $last")" \
	'a whole forward pass again, also what backward does not ask for'

# ---- activations, and GPUs that hold all of it

run --emit=memory-json --dim hidden=8192 --dim heads=64 --dim layers=80 \
	--dim seq=4096 --dim batch=8 --pin recompute=attention \
	"$examples/gpt-block.llm" || exit
saved=$(sed -n 's/.*"stage": 0, .*"saved_bytes": \([0-9]*\).*/\1/p' out)
row act-formula "$saved"
# Of four terms, each rounded in the article.
exact=$(calc "$weights + $gradients + $optimizer + $saved")
round=$(calc "16 * 70e9 + $saved")
differs train-total-gpus-80 "$(calc "int($exact / 80e9) + 1")" \
	"$(calc "int($round / 80e9) + 1")" '70e9 parameters, not 69.0e9'
differs train-total-gpus-24 "$(calc "int($exact / 24e9) + 1")" \
	"$(calc "int($round / 24e9) + 1")" '70e9 parameters, not 69.0e9'

# The row's value is N, for every N.
echo pp-in-flight >>covered
for n in 2 4 8 16; do
	near "pp-in-flight, $n stages" "$("$LLMC" schedule 1f1b --ranks=$n \
		--microbatches=64 --summary | sed -n \
		's/^rank 0: .*holds at most \([0-9]*\) .*/\1/p')" $n 0
done

# ---- rates of a target, as it prints them

# rate TARGET KEY
rate()
{
	"$LLMC" target "$1" | sed -n "s/^ *$2 = \([0-9.]*\);/\1/p"
}

# bound TARGET: the degree at which a block of attention's products, 2 * 3 *
# hidden / t / 2 per byte, take as long as their exchange over the link, one way
bound()
{
	calc "2 * 3 * 8192 / 2 * $(rate "$1" link_bandwidth) / 2 * 1e9 /
		($(rate "$1" fp16) * 1e12)"
}

# other NAME TARGET SETTINGS: another rate for the same machine
other()
{
	echo "target { accelerator = $2; $3 }" >"$1.target"
}

other sparse-h100 h100 'fp16 = 1979;'
other sparse-h800 h800 'fp16 = 1979;'
other half-4090 rtx4090 'fp16 = 330;'
differs tp-bound-4090 "$(bound rtx4090)" "$(bound half-4090.target)" \
	'sums in 16 bits, at twice the rate of sums in 32'
differs tp-bound-h100-sparse "$(bound h100)" \
	"$(bound sparse-h100.target)" 'the rate of sparse matrices'
differs tp-bound-h800-sparse "$(bound h800)" \
	"$(bound sparse-h800.target)" 'the rate of sparse matrices'
row decode-balance-h100 "$(calc "$(rate h100 fp16) / $(rate h100 bandwidth)")"
differs decode-balance-4090 \
	"$(calc "$(rate rtx4090 fp16) / $(rate rtx4090 bandwidth)")" \
	"$(calc "$(rate half-4090.target fp16) /
		$(rate rtx4090 bandwidth)")" \
	'sums in 16 bits, at twice the rate of sums in 32'

# ---- the answer: hours, dollars, failures

# answer ARGUMENTS..: plan.json into a
answer()
{
	run --emit=answer-json "$@" || exit
	mv out a
}

# The plan is the one that is found.
answer --target a100x8x256 --tokens=2.0e12 "$examples/llama-2-70b.llm"
grep -q '"fits": true' a || bad 'it does not fit'
row train-gpu-hours "$(field a device_hours)"

# tokens a dollar of what so many tokens a second cost, as the answer counts:
# the rate is the article's own, of serving, and is scaled to
dollars()
{
	other priced "$1" "devices = 8; price = $(calc "$2 / 8");"
	answer --target priced.target --pin tp=8,microbatch=1 \
		"$examples/llama-2-7b.llm"
	calc "1e6 / ($(field a usd_mtoken) *
		$(field a tokens_s) / $3)"
}
# What its prices of an hour come to: three years of a machine that is bought,
# and its energy at 0.1 USD/kWh (40,000 USD and 5 kW; 300,000 USD and 10 kW).
owned()
{
	other owned "$1" "devices = 8; purchase = $2; power = $3;
		host_purchase = 0; host_power = 0;"
	answer --target owned.target --own 3 --energy 0.1 --pue 1 \
		--pin tp=8,microbatch=1 "$examples/llama-2-7b.llm"
	near "  an hour of 8 $1, owned" "$(field a usd_h)" "$4" 0.2
}

owned rtx4090 5000 625 2.02
owned h100 37500 1250 12.4
row dollars-4090x8 "$(dollars rtx4090 2.02 12.2e3)"
row dollars-h100x8 "$(dollars h100 12.4 113e3)"

other monthly h100 'devices = 8; nodes = 256; failures = 12;'
answer --target monthly.target --restart=10 \
	--pin tp=8,pp=4,dp=64,microbatch=1,zero=1 "$examples/llama-2-70b.llm"
row failures-2048 "$(calc "$(field a mtbf_s) / 60")"
near '  its time that is not lost: about half' "$(field a goodput)" \
	0.5 20

# ---- serving, without what the article leaves out

# decodes TARGET KEYS ARGUMENTS..: at the whole bandwidth, into a
decodes()
{
	other decoding "$1" "memory_eff = 1; launch = 0.01; $2"
	shift 2
	run --serve --emit=serve-json --target decoding.target "$@" \
		"$examples/llama-2-70b.llm" || exit
	mv out a
}

alone='--workload=prompt=2,output=2,sequences=1,chunk=2'

decodes rtx4090 'devices = 8;' $alone --pin tp=1,pp=8
row decode-pp8-4090 "$(calc "$(field a alone_tpot_us) / 1000")"
decodes rtx4090 'devices = 8; link_devices = 8; link_start = 28;
	link_hop = 0.01; bridge = 0; link_bandwidth = 10000;' $alone --pin tp=8
row decode-tp8-4090 "$(calc "$(field a alone_tpot_us) / 1000")"
decodes h100 'devices = 8;' $alone --pin tp=8
row decode-tp8-h100 "$(calc "$(field a weights_us) / 1000")"

# Batches of 330, which the article counts as weights and exchanges alone.
# batch N TARGET-KEYS PINS: milliseconds from token to token of that, each
# stage having a batch
batch()
{
	decodes rtx4090 "bf16 = 330; fp16 = 330; matrix_eff = 1;
		matrix_fill = 1; matrix_feed = 100000; memory = 100;
		bridge = 0; link_eff = 1; link_start = 0.01;
		link_hop = 0.01; latency = 0.01; $2" --pin "$3" \
		--workload "prompt=2,output=64,sequences=$1,chunk=16"
	calc "$(field a pp) / 1000 * ($(field a weights_us) +
		$(field a communication_us) + $(field a hop_us))"
}

differs decode-tp8-4090-b330 \
	"$(batch 330 'devices = 8; link_devices = 8;' tp=8)" \
	"$(batch 330 'devices = 8; link_devices = 8;
		link_bandwidth = 112;' tp=8)" \
	'an all-reduce that sends each byte once, not 7/8 of them twice'
differs decode-200g-tp8 \
	"$(calc "1000 / $(batch 330 'nodes = 8; devices = 1; network = 25;' \
		tp=8)")" \
	"$(calc "1000 / $(batch 330 'nodes = 8; devices = 1;
		network = 43.75;' tp=8)")" 'the same'
row decode-10g-pp8 \
	"$(calc "1000 / $(batch 2640 'nodes = 8; devices = 1;
		network = 1.25;' tp=1,pp=8)")"
row decode-tp4-pp2-25g \
	"$(calc "1000 / $(batch 660 'nodes = 2; devices = 4;
		link_devices = 4; network = 3.125;' tp=4,pp=2)")"

# ---- all rows

tail -n +2 "$rows" | cut -f1 | sort >all
sort -u covered >tested
comm -23 tested all | sed 's/^/FAIL no such row: /' >odd
sed -n '/^## First principles/,/^## /s/`/\
/gp' "$top_srcdir/docs/testing.md" | grep -Fx -f all | sort >listed
comm -23 all tested >left
comm -3 left listed |
	sed 's/^/FAIL without a test, or listed as such: /' >>odd
cat odd
[ ! -s odd ] || bad 'rows, tests and docs/testing.md differ'
exit $failed
