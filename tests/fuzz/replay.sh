#!/bin/sh
# Every committed seed through its fuzzer, and some mutants of each: what was
# once found stays fixed.
#	FUZZ_MUTANTS=1000 FUZZ_SEED=7 FUZZ_CPU=2 FUZZ_MB=500 make check \
#		TESTS=tests/fuzz/replay.sh
# looks for more without clang, by the limits of an idle machine; these are of
# one that has sanitizers and a lot to do.
set -u
bad=0
here=$PWD
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
export FUZZ_MUTANTS="${FUZZ_MUTANTS-3}"
seeds=$(cd "${top_srcdir:?}/tests/fuzz/seeds" && pwd) || exit 99
cd "$tmp" || exit 99
for what in ${FUZZ:-dsl gguf import ir json mark plan safetensors sched \
	schema target tokenizer tokens tsv}; do
	"$here/tests/fuzz/replay-$what" "$seeds/$what" || {
		echo "replay-$what failed on the input named last"
		test ! -f mutant || {
			mv mutant "$here/tests/fuzz/found-$what"
			echo "or on a mutant of it: tests/fuzz/found-$what"
		}
		bad=1
	}
	rm -f mutant
done
exit $bad
