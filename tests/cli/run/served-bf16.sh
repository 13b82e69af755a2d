#!/bin/sh
# Programs that serve in bf16: their logits are within thrice of what bf16 costs
# transformers of what it computes in float64 with the same weights, on one rank
# and on two, the prompt as a whole and in chunks.  tests/interop/make_bf16.py
# made the logits and the bounds.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
from=$tests/interop/rounded/bf16.txt

# The program as it is linked, with logits in place of `generate`.
generate_is serve-logits.c

# logits ROWS OPTION..: of the three prompts of make_bf16.py, to `out'
logits()
{
	rows=$1
	shift
	run --serve --draft --workload "prompt=3,output=5,tokens=8,rows=$rows,\
keys=256,slots=384" "$@" -o served narrow.llm || exit
	./served/rank generate --local --weights narrow --prompt \
		bcdefghitalldrcjkmoqsbeh >out 2>err ||
		fail "$family $*"
	rm -r served
}

# near WHAT: are those in `out' within the bound, and not all exact?
near()
{
	awk -v family="$family" -v what="$1" '
	NR == FNR && $1 != family { next }
	NR == FNR && $2 == "bound" { bound = 3 * $3; next }
	NR == FNR { for (i = 2; i <= NF; i++) want[n, i - 1] = $i; n++; next }
	{
		for (i = 1; i <= NF; i++) {
			d = $i - want[m, i]
			d = d < 0 ? -d : d
			most = d > most ? d : most
		}
		if (NF != 20) exit 1
		m++
	}
	END {
		printf "%s %s: %.4f of at most %.4f\n", family, what, most,
			bound
		exit !(n == 24 && m == n && most > 0 && most <= bound)
	}' "$from" out
}

for family in llama qwen3 gemma2 mixtral deepseek_v3; do
	rm -rf narrow
	mkdir narrow
	cp "$tests/interop/tiny/$family/model.safetensors" narrow
	sed 's/"float32"/"bfloat16"/' "$tests/interop/tiny/$family/config.json" \
		>narrow/config.json
	run import narrow -o narrow.llm || exit
	grep -q 'dtype bf16;' narrow.llm || bad "$family: no dtype bf16"
	logits 8 --target cpux1
	near whole || bad "$family: the prompt as a whole"
	mv out whole
	logits 3 --target cpux1
	cmp out whole || bad "$family: chunks change logits"
	logits 8 --target cpux2 --pin tp=2
	near 'on two ranks' || bad "$family: on two ranks"
done
exit $failed
