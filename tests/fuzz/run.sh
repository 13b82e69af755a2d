#!/bin/sh
# `make fuzz': build the fuzzers with clang in ./fuzz-build and run each of
# them, or the one that FUZZ names, for FUZZ_SECONDS. Findings are left in
# fuzz-build/findings, and make this exit 1.
set -eu

if test -f "${top_srcdir:?}/config.status"; then
	echo 'fuzz: the source folder itself is configured; build outside it' >&2
	exit 2
fi
CLANG=${CLANG:-$(command -v clang-19 || command -v clang || :)}
if test -z "$CLANG"; then
	echo 'fuzz: no clang (apt-get install clang-19)' >&2
	exit 2
fi

mkdir -p fuzz-build
cd fuzz-build
if test ! -f Makefile; then
	"$top_srcdir/configure" -q --with-llvm=no --with-cuda=no CC="$CLANG" \
		CFLAGS="-O1 -g -fno-omit-frame-pointer \
-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
fi
$MAKE -s fuzzers

mkdir -p findings
# An input is a finding that takes 20 s or 2,000 MB: ten times the 2 s and four
# times the 500 MB that llmc may take to refuse one, since sanitizers take so
# much more of both, and -timeout is of the clock of a machine with other work.
status=0
for what in ${FUZZ:-dsl gguf import ir json mark plan safetensors sched \
	schema target tokenizer tokens tsv}; do
	corpus=corpus/$what
	mkdir -p "$corpus"
	find "$top_srcdir/tests/fuzz/seeds/$what" -type f \
		-exec cp {} "$corpus" \;
	dict=
	test ! -f "$top_srcdir/tests/fuzz/$what.dict" ||
		dict=-dict=$top_srcdir/tests/fuzz/$what.dict
	echo "fuzz: $what for ${FUZZ_SECONDS:=600} s"
	"./tests/fuzz/fuzz-$what" -timeout=20 -rss_limit_mb=2000 \
		-max_total_time="$FUZZ_SECONDS" -print_final_stats=1 \
		-artifact_prefix="findings/$what-" ${dict:+"$dict"} "$corpus" \
		>"$what.log" 2>&1 || {
		tail -n 40 "$what.log"
		echo "fuzz: $what: see $PWD/findings and $PWD/$what.log"
		status=1
		continue
	}
	grep -E '^stat::(number_of_executed_units|new_units_added)' "$what.log"
done
exit $status
