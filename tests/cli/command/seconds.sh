#!/bin/sh
# tests/run-timed: a test's exit status is passed on, and what it computed is
# noted; tests/slowest: the longest come first, as they ran last.
. "${top_srcdir:?}/tests/lib.sh"
TESTS_SECONDS=$tmp/seconds
export TESTS_SECONDS

# A loop of which the processor, and nothing else, takes time; a nap without.
cat >busy.sh <<'END'
awk 'BEGIN { for (i = 0; i < 3000000; i++) x += i; print x }'
exit 3
END
cat >nap.sh <<'END'
sleep 1
END

sh "$tests/run-timed" sh busy.sh --test-name tests/busy.sh --log-file x >out 2>err
[ $? -eq 3 ] || bad 'run-timed does not end as its test does'
sh "$tests/run-timed" sh nap.sh --test-name tests/nap.sh >out 2>err ||
	bad 'run-timed fails with a test that passes'
cp seconds out
awk '
	NR == 1 && !($1 > 0 && $2 >= 0 && $3 == "tests/busy.sh") ||
	NR == 2 && !($1 < 0.5 && $2 >= 1 && $3 == "tests/nap.sh") || NF != 3 {
		exit wrong = 1
	}
	END { exit wrong || NR != 2 }' seconds || bad 'seconds of busy and nap'
[ "$(find . -name 'seconds*')" = ./seconds ] || bad 'run-timed leaves files'

cat >seconds <<'END'
20.5 11 tests/once-long
3.0 4 tests/b
3.0 4 tests/a
12.5 60 tests/long
0.1 1 tests/once-long
END
sh "$tests/slowest" seconds >out 2>err || bad slowest
cat >wanted <<'END'
    12.5 s, in 60 s: tests/long
     3.0 s, in 4 s: tests/a
     3.0 s, in 4 s: tests/b
     0.1 s, in 1 s: tests/once-long
END
cmp -s wanted out || bad 'slowest'
seq 1 30 | awk '{ print $1, $1, "tests/" $1 }' >seconds
sh "$tests/slowest" seconds >out 2>err
[ "$(wc -l <out)" -eq 10 ] && head -n 1 out | grep -q ' tests/30$' ||
	bad 'slowest: the ten longest'
exit $failed
