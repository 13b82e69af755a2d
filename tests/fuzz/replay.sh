#!/bin/sh
# Every committed seed through its fuzzer: what was once found stays fixed.
set -u
bad=0
for what in dsl ir mark safetensors sched tokens; do
	timeout 120 "./tests/fuzz/replay-$what" \
		"${top_srcdir:?}/tests/fuzz/seeds/$what" || {
		echo "replay-$what failed on the input named last"
		bad=1
	}
done
exit $bad
