#!/bin/sh
# Does what was installed work as a user finds it? Builds the example pass
# plug-in outside the tree, against the installed headers alone, and runs it
# in the installed llmc.
set -eu

llmc=$DESTDIR${bindir:?}/llmc
include=$DESTDIR${includedir:?}/llmc
model=${top_srcdir:?}/examples/gpt2-124m.llm
pass=count-ops

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

fail()
{
	echo "installcheck: $*" >&2
	exit 1
}

# Each installed header stands on its own.
for header in ir/base.h ir/ir.h passes/pass.h passes/plan.h passes/sched.h; do
	echo "#include \"$header\"" >header.c
	# shellcheck disable=SC2086 # CC may hold options
	$CC -std=c11 -fsyntax-only "-I$include" header.c ||
		fail "$header does not compile alone"
done

# shellcheck disable=SC2086
$CC -shared -fPIC "-I$include" -o plugin.so \
	"$top_srcdir"/examples/pass-plugin/*.c ||
	fail 'the example plug-in does not compile'

# Unless the name is unknown without it, running the pass proves nothing.
if "$llmc" --passes=$pass --emit=ir "$model" >out 2>&1; then
	fail "llmc knows the pass $pass without the plug-in"
fi
"$llmc" --load-pass=./plugin.so --passes=$pass --stats --emit=ir "$model" \
	>out 2>&1 || {
	cat out >&2
	fail "llmc fails with the plug-in"
}
grep -q "$pass" out || {
	cat out >&2
	fail "nothing in llmc's output names the pass $pass"
}
echo "installcheck: $pass ran"
