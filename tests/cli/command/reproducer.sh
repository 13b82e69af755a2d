#!/bin/sh
# A pass that breaks the IR, or dies, leaves its input behind, and
# --run-reproducer makes it fail again.
. "${top_srcdir:?}/tests/lib.sh"
need compiler
ulimit -c 0 2>/dev/null

cat >in.ir <<'END'
llmc-ir 1
dim a = 2 + 2

model {
  %0 = weight name="w" init=ones : f32[a]
  %1 = neg %0 : f32[a]
  return %1
}
END
# More than is written at once.
{
	printf 'llmc-ir 1\ndim a = 2 + 2\n\nmodel {\n'
	printf '  %%0 = weight name="w\\x01\\n" init=normal std=0.02 : f32[a]\n'
	i=0
	while test $i -lt 500; do
		echo "  %$((i + 1)) = neg %$i : f32[a]"
		i=$((i + 1))
	done
	printf '  return %%500\n}\n'
} >long.ir
cat >bug.c <<'END'
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "passes/pass.h"

static bool breaks(struct pass_ctx *p, struct ir_module *m)
{
	value_id v = m->values.n - 1;
	struct ir_type t = *ir_type(m, v);

	t.dtype = IR_F16;
	m->values.at[v].type = ir_type_keep(p->ctx, &t);
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

static int deeper(volatile int *above)
{
	volatile int here[1024];

	here[0] = *above + 1;
	return deeper(here) + here[0];
}

static bool overflows(struct pass_ctx *p, struct ir_module *m)
{
	volatile int none = 0;

	(void)p;
	(void)m;
	return deeper(&none) != 0;
}

/* What is written is a copy, and knows names that were there before. */
static bool spoils(struct pass_ctx *p, struct ir_module *m)
{
	char name[16];
	int i;

	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "n%d", i);
		intern_str(&p->ctx->syms, name);
	}
	memset(m->regions.at, 0xee, m->regions.n * sizeof *m->regions.at);
	memset(m->values.at, 0xee, m->values.n * sizeof *m->values.at);
	memset(m->nodes.at, 0xee, m->nodes.n * sizeof *m->nodes.at);
	memset(m->args.at, 0xee, m->args.n * sizeof *m->args.at);
	memset(m->attrs.at, 0xee, m->attrs.n * sizeof *m->attrs.at);
	memset(m->dims.at, 0xee, m->dims.n * sizeof *m->dims.at);
	memset(m, 0xee, sizeof *m);
	abort();
}

/* Then even the handler faults. */
static bool forgets(struct pass_ctx *p, struct ir_module *m)
{
	(void)m;
	p->ctx->syms.text.at = NULL;
	abort();
}

static bool waits(struct pass_ctx *p, struct ir_module *m)
{
	(void)p;
	(void)m;
	fclose(fopen("waits", "w"));
	for (;;) {
		pause();
	}
}

static const struct pass passes[] = {
	{ "overflows", 0, 0, 0, overflows, "has no end" },
	{ "spoils", 0, 0, 0, spoils, "spoils all of the module" },
	{ "forgets", 0, 0, 0, forgets, "forgets all names" },
	{ "waits", 0, 0, 0, waits, "waits for a signal" },
	{ "breaks", 0, 0, 0, breaks, "breaks a type" },
	{ "aborts", 0, 0, 0, aborts, "aborts" },
	{ "looks", 0, PASS_SAME, 0, faults, "changes nothing, and faults" },
	{ "faults", 0, 0, 0, faults, "writes to nowhere" }
};

const struct pass_plugin *llmc_pass_plugin(void)
{
	static const struct pass_plugin p = {
		IR_ABI_VERSION, "bug", "1", passes, 8
	};

	return &p;
}
END
shared bug.so -std=c11 -O0 bug.c || fail bug.c

# dies ARGUMENTS..: in a subshell, whose own message of the signal is not
# wanted
dies()
{
	("$LLMC" "$@") >out 2>err
	test $? -gt 2 || fail "llmc $*: did not die"
}

run opt --passes=fold-dims -o folded.ir in.ir
for pass in breaks aborts faults looks overflows spoils; do
	dies opt --load-pass=bug.so --passes=fold-dims,$pass,dce \
		--verify-each in.ir
	repro=llmc-repro-$pass.ir
	grep -q "pass \`$pass\` failed; the module before it is in $repro" \
		err || fail "$pass: not said"
	test -f $repro || fail "$pass: no reproducer"
	head -n 1 $repro | grep -q "^# args: opt .*--passes=$pass" ||
		fail "$pass: no arguments in the first line"
	# It is the module before the pass, and plain IR.
	sed 1d $repro | cmp - folded.ir || fail "$pass: another module"
	"$LLMC" opt $repro | cmp - folded.ir || fail "$pass: does not read"
	mv $repro first.ir
	dies opt --run-reproducer first.ir
	sed 1d $repro | cmp - folded.ir || fail "$pass: replay differs"
	dies opt --reproducer="a b.ir" --run-reproducer first.ir
	sed 1d "a b.ir" | cmp - folded.ir || fail "$pass: --reproducer"
	rm -f $repro "a b.ir"
done

# The copy is of the module as it came to the pass, however large it is,
# wherever it came from, and whatever else is printed.
run opt --passes=fold-dims -o folded.ir long.ir
test "$(wc -c <folded.ir)" -gt 12288 || fail 'long.ir is short'
dies opt --load-pass=bug.so --passes=fold-dims,spoils - <long.ir
sed 1d llmc-repro-spoils.ir | cmp - folded.ir || fail 'long.ir differs'
rm -f llmc-repro-spoils.ir
dies opt --load-pass=bug.so --passes=fold-dims,spoils --print-changed \
	--print-before --time-passes long.ir
sed 1d llmc-repro-spoils.ir | cmp - folded.ir || fail 'printed: differs'
rm -f llmc-repro-spoils.ir

# A file that cannot be opened, a disk that is full, a handler that faults.
for file in none/x.ir /dev/full; do
	test $file = none/x.ir || test -c $file || continue
	dies opt --load-pass=bug.so --passes=spoils --reproducer=$file long.ir
	grep -q 'the reproducer cannot be written' err ||
		fail "$file: not said"
done
dies opt --load-pass=bug.so --passes=forgets in.ir
test "$(grep -c 'the reproducer cannot be written' err)" -eq 1 ||
	fail 'forgets: not said'
rm -f llmc-repro-forgets.ir

# A signal from outside is as one from inside.
("$LLMC" opt --load-pass=bug.so --passes=fold-dims,waits in.ir 2>err &
	echo $! >pid
	wait $!
	echo $? >status) 2>/dev/null &
i=0
until test -e waits || test $i -ge 300; do
	sleep 0.1
	i=$((i + 1))
done
kill -s ABRT "$(cat pid)"
wait
test "$(cat status)" -gt 128 || fail 'waits: no signal'
run opt --passes=fold-dims -o folded.ir in.ir
sed 1d llmc-repro-waits.ir | cmp - folded.ir || fail 'waits: another module'

# Without --verify-each a broken module goes unnoticed here.
run opt --load-pass=bug.so --passes=breaks -o /dev/null in.ir
test ! -e llmc-repro-breaks.ir || fail 'a reproducer of nothing'

misused 'is not a reproducer' opt --run-reproducer in.ir
# it may not name files to write, nor run itself
echo '# args: opt -o x.ir' >evil.ir
misused 'must name `opt` and no other file' opt --run-reproducer evil.ir
echo '# args: opt --run-reproducer=evil.ir' >evil.ir
misused 'must name `opt` and no other file' opt --run-reproducer evil.ir
exit $failed
