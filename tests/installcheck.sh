#!/bin/sh
# Does what was installed work as a user finds it? Builds the example pass
# plug-in outside the tree, against the installed headers alone, and runs it
# in the installed llmc.
LLMC=$DESTDIR${bindir:?}/llmc
. "${top_srcdir:?}/tests/lib.sh"
include=$DESTDIR${includedir:?}/llmc
model=$examples/gpt2-124m.llm
pass=count-ops

# Each installed header stands on its own.
for header in ir/base.h ir/ir.h passes/pass.h passes/plan/plan.h passes/sched/sched.h; do
	echo "#include \"$header\"" >header.c
	# shellcheck disable=SC2086 # CC may hold options
	$CC -std=c11 -fsyntax-only "-I$include" header.c ||
		bad "$header does not compile alone"
done

# shellcheck disable=SC2086
$CC -shared -fPIC "-I$include" -o plugin.so "$examples"/pass-plugin/*.c ||
	fail 'the example plug-in does not compile'

# Unless the name is unknown without it, running the pass proves nothing.
misused "there is no pass \`$pass\`" --passes=$pass --emit=ir "$model"
run --load-pass=./plugin.so --passes=$pass --stats --emit=ir "$model"
grep -q "$pass" out err || bad "nothing that llmc says names the pass $pass"
exit $failed
