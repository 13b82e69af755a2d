#!/bin/sh
# Figures that anyone can work out on paper for a model, and that published
# articles print: each is derived from the summary and held to a tolerance.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
fail=0

# field FILE KEY: the number behind "KEY": in a JSON summary
field()
{
	sed -n "s/.*\"$2\": *\\([0-9.e+]*\\).*/\\1/p" "$1" | head -n 1
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
	}' || fail=1
}

calc()
{
	awk "BEGIN { printf \"%.17g\", $(printf '%s' "$1" | tr '\n\t' '  ') }"
}

summary()
{
	"$LLMC" --emit=summary-json "$@" >"$tmp/s" || exit 1
}

summary "${top_srcdir:?}/examples/llama-2-70b.llm"
params=$(field "$tmp/s" parameters)
near 'train-flops' "$(calc "6 * $params * 2.0e12")" 8.3e23 3
near 'weights-bf16' "$(field "$tmp/s" weight_bytes)" 140e9 3
near 'grads-bf16' "$(field "$tmp/s" gradient_bytes)" 140e9 3
near 'adam-states' "$(field "$tmp/s" optimizer_bytes)" 840e9 3
near 'adam-per-param' "$(calc "($(field "$tmp/s" weight_bytes) +
	$(field "$tmp/s" gradient_bytes) +
	$(field "$tmp/s" optimizer_bytes)) / $params")" 16 0
# One layer is what two models differ by whose depths differ by one.
sed 's/layers = 80/layers = 81/' "$top_srcdir/examples/llama-2-70b.llm" \
	>"$tmp/deeper.llm"
"$LLMC" --emit=summary-json "$tmp/deeper.llm" >"$tmp/d" || exit 1
layer=$(calc "$(field "$tmp/d" parameters) - $params")
near 'dp-grad-bytes' "$(calc "4 * $layer")" 4e9 20
near 'dp-layer-flops' "$(calc "6 * $layer * 8 * 4096")" 196e12 20
near 'kv-cache-gqa' "$(calc "8 * 4096 * $(sed -n \
	's/.*"kv_cache": \[{"bytes": \([0-9]*\).*/\1/p' "$tmp/s")")" 10.7e9 1
grep '"flops_per_token"' "$tmp/s" >"$tmp/flops"
contraction=$(field "$tmp/flops" contraction)
near 'matmul-flops' "$contraction" \
	"$(calc "2 * ($params - 32000 * 8192 - 161 * 8192)")" 0
# Without recomputation, training is three forward passes of matmul work.
attention=$(field "$tmp/flops" attention)
near 'fwd-bwd-ratio' "$(calc "1 + $(field "$tmp/flops" backward) / ($contraction +
	$attention + $(field "$tmp/flops" other))")" 3 0.1

# The same of the backward program itself: three times the contractions, and
# attention's two products forward, five backward (scores are rebuilt).
summary --passes=train "$top_srcdir/examples/llama-2-70b.llm"
grep '"flops_per_token"' "$tmp/s" >"$tmp/flops"
near 'fwd-bwd-contractions' "$(calc "$(field "$tmp/flops" contraction) /
	$contraction")" 3 0
near 'fwd-bwd-attention' "$(calc "$(field "$tmp/flops" attention) /
	$attention")" 3.5 0
[ "$(field "$tmp/s" parameters)" = "$params" ] || fail=1

# The same model with keys and values for every head.
sed 's/kv = 8,/kv = 64,/' "$top_srcdir/examples/llama-2-70b.llm" \
	>"$tmp/mha.llm"
summary "$tmp/mha.llm"
near 'kv-cache-mha' "$(calc "8 * 4096 * $(sed -n \
	's/.*"kv_cache": \[{"bytes": \([0-9]*\).*/\1/p' "$tmp/s")")" 80e9 8

# All of it in fp32.
sed 's/dtype bf16/dtype f32/' "$top_srcdir/examples/llama-2-70b.llm" \
	>"$tmp/f32.llm"
summary "$tmp/f32.llm"
near 'fp32-per-param' "$(calc "($(field "$tmp/s" weight_bytes) +
	$(field "$tmp/s" gradient_bytes) +
	$(field "$tmp/s" optimizer_bytes)) / $params")" 16 0

summary "$top_srcdir/examples/deepseek-v3.llm"
near 'r1-bytes' "$(field "$tmp/s" weight_bytes)" 1342e9 1
exit $fail
