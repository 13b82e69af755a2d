#!/bin/sh
# A pass that breaks the IR, or dies, leaves its input behind, and
# --run-reproducer makes it fail again.
# shellcheck disable=SC2016 # messages quote with back quotes
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
# shellcheck disable=SC3045 # where it is missing there is no harm
ulimit -c 0 2>/dev/null

fail()
{
	echo "$*"
	exit 1
}

cat >in.ir <<'END'
llmc-ir 1
dim a = 2 + 2

model {
  %0 = weight name="w" init=ones : f32[a]
  %1 = neg %0 : f32[a]
  return %1
}
END
cat >bug.c <<'END'
#include "passes/pass.h"

static bool breaks(struct pass_ctx *p, struct ir_module *m)
{
	(void)p;
	m->values.at[m->values.n - 1].type.dtype = IR_F16;
	return true;
}

static bool aborts(struct pass_ctx *p, struct ir_module *m)
{
	(void)p;
	m->dims.at[1].expr = 12345;	/* what is written is from before */
	die("planted");
}

static bool faults(struct pass_ctx *p, struct ir_module *m)
{
	static int *volatile nowhere;

	(void)p;
	(void)m;
	*nowhere = 1;
	return true;
}

static const struct pass passes[] = {
	{ "breaks", 0, 0, 0, breaks, "breaks a type" },
	{ "aborts", 0, 0, 0, aborts, "aborts" },
	{ "faults", 0, 0, 0, faults, "writes to nowhere" }
};

const struct pass_plugin *llmc_pass_plugin(void)
{
	static const struct pass_plugin p = {
		IR_ABI_VERSION, "bug", "1", passes, 3
	};

	return &p;
}
END
# shellcheck disable=SC2086 # CC may hold options
${CC:-cc} -std=c11 -shared -fPIC -I"${top_srcdir:?}" -o bug.so bug.c 2>/dev/null ||
	{ echo 'no compiler'; exit 77; }

# In a subshell, whose own message of the signal is not wanted.
run()
{
	("$LLMC" "$@") >out 2>err
	test $? -gt 2 || { cat err; fail "llmc $*: did not die"; }
}

"$LLMC" opt --passes=fold-dims -o folded.ir in.ir || fail 'fold-dims'
for pass in breaks aborts faults; do
	run opt --load-pass=bug.so --passes=fold-dims,$pass,dce \
		--verify-each in.ir
	repro=llmc-repro-$pass.ir
	grep -q "pass \`$pass\` failed; the module before it is in $repro" \
		err || { cat err; fail "$pass: not said"; }
	test -f $repro || fail "$pass: no reproducer"
	head -n 1 $repro | grep -q "^# args: opt .*--passes=$pass" ||
		fail "$pass: no arguments in the first line"
	# It is the module before the pass, and plain IR.
	sed 1d $repro | cmp - folded.ir || fail "$pass: another module"
	"$LLMC" opt $repro | cmp - folded.ir || fail "$pass: does not read"
	mv $repro first.ir
	run opt --run-reproducer first.ir
	sed 1d $repro | cmp - folded.ir || fail "$pass: replay differs"
	run opt --reproducer="a b.ir" --run-reproducer first.ir
	sed 1d "a b.ir" | cmp - folded.ir || fail "$pass: --reproducer"
	rm -f $repro "a b.ir"
done

# Without --verify-each a broken module goes unnoticed here.
"$LLMC" opt --load-pass=bug.so --passes=breaks -o /dev/null in.ir ||
	fail 'breaks, not verified'
test ! -e llmc-repro-breaks.ir || fail 'a reproducer of nothing'

"$LLMC" opt --run-reproducer in.ir 2>err
test $? -eq 2 || fail 'no reproducer: status'
grep -q 'is no reproducer' err || fail 'no reproducer: message'
echo '# args: opt -o x.ir' >evil.ir
"$LLMC" opt --run-reproducer evil.ir 2>err
test $? -eq 2 || fail 'a reproducer may not name files to write'
echo '# args: opt --run-reproducer=evil.ir' >evil.ir
"$LLMC" opt --run-reproducer evil.ir 2>err
test $? -eq 2 || fail 'a reproducer may not run itself'
exit 0
