#!/bin/sh
# The first microbatch stores gradients where others add: it reads no sum.  So
# a step takes less, once, by what it takes to read all gradients.
. "${top_srcdir:?}/tests/lib.sh"

# maps MICROBATCH ARGUMENTS..: ms of maps and rows
maps()
{
	mb=$1
	shift
	"$LLMC" -w --emit=cost --target a100-sxmx1 --pin "microbatch=$mb" "$@" \
		"$examples/gpt2-xl.llm" | awk '/^maps and rows/ { print $4 }'
}

# 1,557,611,200 parameters of 2 bytes at 2 TB/s, 0.77 and 1.12 of it.
for mb in 4 8; do
	stored=$(maps $mb)
	added=$(maps $mb --assume first_sums=added)
	awk -v s="$stored" -v a="$added" 'BEGIN {
		us = 1557611200 * 2 / (2e6 * 0.77 * 1.12)
		exit !(s > 0 && a - s > 0.98e-3 * us && a - s < 1.01e-3 * us)
	}' || bad "microbatches of $mb: $stored ms, and $added if all add"
done

exit $failed
