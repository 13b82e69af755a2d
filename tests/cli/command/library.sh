#!/bin/sh
# tests/lib.sh: what is wrong fails a test, whatever comes after it; what is
# missing skips it; and its folder is gone however it ends.
. "${top_srcdir:?}/tests/lib.sh"
mkdir folders

# ends_with STATUS TEXT: the test on standard input does, and says that
ends_with()
{
	{ echo '. "$top_srcdir/tests/lib.sh"'; cat; } >test.sh
	TMPDIR=$tmp/folders SLOW_TESTS=skip sh test.sh >out 2>err
	got=$?
	[ $got -eq "$1" ] && grep -qF -e "$2" out ||
		bad "$(tail -n +2 test.sh): exit status $got, not $1 with: $2"
	[ -z "$(ls folders)" ] || bad "$(tail -n +2 test.sh): leaves its folder"
}

while read -r status text; do
	read -r lines
	echo "$lines" >lines
	ends_with "$status" "$text" <lines
done <<'END'
0 on
echo on; exit $failed
0 0c1b2a
for TESTS_DAY in 0 1 2; do cases=0; for c in a b c; do ! today 3 || printf %s "$TESTS_DAY$c"; done; done
0 abc
SLOW_TESTS=1; for c in a b c; do ! today 3 || printf %s $c; done
1 FAIL early
bad early; echo late; exit $failed
1 late
bad early; echo late; exit $failed
1 FAIL forgotten
bad forgotten; exit 0
1 FAIL hidden
bad hidden; skip behind
77 skipped: why
skip why
77 skipped: no time
need time
1 FAIL at once
fail at once; exit 0
1 FAIL have wings
have wings; exit 0
99 killed
echo killed; kill -TERM $$
0 closed
mkdir closed; chmod a-rwx closed; echo closed; exit $failed
0 llmc
run --version; cat out; exit $failed
1 FAIL llmc none.llm: exit status 1
run none.llm; exit $failed
0 on
refused 'cannot read none.llm' none.llm && echo on; exit $failed
1 expected: 1, and: other words
refused 'other words' none.llm; exit $failed
1 exit status 0; expected: 1,
refused '' --list-ops; exit $failed
1 exit status 1; expected: 2,
misused 'cannot read none.llm' none.llm; exit $failed
1 one and other differ
mkdir one other; : >one/file; same_folders one other; exit $failed
0 on
seq 3 >one; sed s/3/3.1/ one >two; near_losses one two 0.04 && echo on; exit $failed
1 one and two: other losses
seq 3 >one; sed s/3/3.1/ one >two; near_losses one two 0.03; exit $failed
1 one and two: other losses
seq 3 >one; sed s/3/nan/ one >two; near_losses one two 0.03; exit $failed
1 one and two: other losses
seq 2 >one; seq 2 >two; near_losses one two 0.03; exit $failed
END
exit $failed
