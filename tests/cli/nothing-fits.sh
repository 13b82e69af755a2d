#!/bin/sh
# When no plan fits: what binds, and that each change that is named gives a
# plan of just that price when the user makes it.
set -u
[ "${SLOW_TESTS-}" = skip ] && exit 77
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
top=${top_srcdir:?}
large=$top/examples/llama-2-70b.llm
small=$top/examples/llama-2-7b.llm
fail=0

bad()
{
	echo "FAIL $*"
	cat "$tmp/err"
	fail=1
}

# refused WORDS ARGUMENTS..: exit 1, nothing printed, the words in the error
refused()
{
	words=$1
	shift
	"$LLMC" "$@" >"$tmp/out" 2>"$tmp/err"
	status=$?
	if [ $status -ne 1 ] || [ -s "$tmp/out" ] ||
		! head -n 1 "$tmp/err" | grep -qF -e "$words"; then
		bad "$* exits with $status, not: $words"
	fi
}

# keeps WORDS ARGUMENTS..: such a note is there, and its price is that of the
# plan found by these arguments
keeps()
{
	words=$1
	shift
	"$LLMC" -w "$@" >"$tmp/out" 2>"$tmp/log" || bad "$* fits nothing"
	step=$(sed -n 's/^step *\([0-9.]*\) ms$/\1/p' "$tmp/out")
	grep -F "one fits $words: a step of $step ms" "$tmp/err" >/dev/null ||
		bad "no note: one fits $words, in $step ms"
}

# 4 bytes a parameter of 68,976,648,192; 12 more may lie on the host
refused 'weights and gradients alone need 275,906,592,768 bytes of 78,400,000,' \
	--target h100x1 "$large"
keeps 'on 1 node of 4 devices' --target h100x4 "$large"
refused 'optimizer state alone need 137,9' --target h100x8 --pin offload=none \
	"$large"
keeps 'on 2 nodes of 8 devices' --target h100x8x2 --pin offload=none "$large"

refused 'on rank 8 of the pipeline (pp=32, microbatch 1, zero 0' \
	--target h100x8x4 --pin zero=0,recompute=none,tp=1 "$large"
keeps 'without recompute=none' --target h100x8x4 --pin zero=0,tp=1 "$large"
keeps 'without tp=1' --target h100x8x4 --pin zero=0,recompute=none "$large"
tail -n 1 "$tmp/err" | grep -q 'another training run' ||
	bad 'a smaller batch is not the last note'
batch=$(sed -n 's/.*with batch \([0-9]*\), which.*/\1/p' "$tmp/err")
keeps "with batch $batch, which is another training run" --target h100x8x4 \
	--pin zero=0,recompute=none,tp=1 --dim "batch=$batch" "$large"

refused 'h100x4: pp=8 are 8 ranks, and there are 4 devices' --target h100x4 \
	--pin pp=8 "$small"
keeps 'without pp=8' --target h100x4 "$small"
keeps 'on 1 node of 8 devices' --target h100x8 --pin pp=8 "$small"

# What the model itself says of recomputation is a pin as well.
sed 's/^  x = embed/  recompute attention;\n&/' "$large" >"$tmp/hint.llm"
refused 'recompute attention)' --target h100x8x2 --pin tp=1 "$tmp/hint.llm"
keeps 'with recompute=full for what the model says' --target h100x8x2 \
	--pin tp=1,recompute=full \
	"$tmp/hint.llm"

# A node of its own, that nothing joins to others.
"$LLMC" target h100x1 | sed '/fabric\|network\|latency\|ports/d
	s/node_devices = .*/node_devices = 1;/' >"$tmp/alone.target"
refused 'alone need' --target "$tmp/alone.target" "$large"
grep -q 'one fits' "$tmp/err" && bad 'nodes that cannot be joined'
# Devices of a megabyte, and no number of them is enough.
"$LLMC" target h100x8 | sed 's/ memory = .*/ memory = 0.001;/
	s/ reserve = .*/ reserve = 0;/' \
	>"$tmp/small.target"
refused 'no plan fits' --target "$tmp/small.target" "$small"
tail -n 1 "$tmp/err" | awk '
	{
		gsub(/,/, "")
		for (i = 1; i < NF; i++)
			if ($i == "needs")
				bytes = $(i + 1)
	}
	!/none fits either on up to/ || bytes <= 1000000 { print; exit 1 }' ||
	bad 'does not say that nothing helps'
exit $fail
