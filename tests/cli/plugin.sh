#!/bin/sh
# Plug-ins: the example counts, another version of the IR is refused, and so
# are missing files, missing symbols and names that are taken.
# shellcheck disable=SC2016 # messages quote with back quotes
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99

fail()
{
	echo "$*"
	exit 1
}

# Plug-ins are built with the system's compiler, if there is one.
build()
{
	# shellcheck disable=SC2086 # CC may hold options
	${CC:-cc} -std=c11 -shared -fPIC -I"${top_srcdir:?}" "$@"
}
echo 'int x;' >x.c
build -o x.so x.c 2>/dev/null || { echo 'no compiler'; exit 77; }

cat >in.ir <<'END'
llmc-ir 1
dim a = 4

model {
  %0 = weight name="w" init=ones : f32[a]
  %1 = neg %0 : f32[a]
  %2 = neg %0 : f32[a]
  %3 = add %1, %2 : f32[a]
  return %3
}
END

build -Wall -Wextra -Wpedantic -Werror -o count-ops.so \
	"$top_srcdir/examples/pass-plugin/count-ops.c" || fail 'does not build'

count()
{
	"$LLMC" opt --load-pass=count-ops.so --stats -o out.ir "$@" in.ir \
		2>err || { cat err; fail "llmc opt $*"; }
	sed -n 's/^# *\([0-9]*\)  count-ops: neg$/\1/p' err
}
test "$(count --passes=count-ops)" = 2 || fail '--passes: counts wrong'
cmp -s in.ir out.ir || fail 'counting changed the IR'
test "$(count --insert=count-ops@after:cse)" = 1 || fail 'after: wrong'
test "$(count --insert=count-ops@before:cse)" = 2 || fail 'before: wrong'
"$LLMC" --load-pass=./count-ops.so --list-passes | grep -q '^count-ops ' ||
	fail '--list-passes does not list it'

refused()
{
	words=$1
	shift
	"$LLMC" opt "$@" in.ir >out 2>err
	test $? -eq 1 || fail "$*: not refused"
	test ! -s out || fail "$*: wrote something"
	grep -qF -e "$words" err || { cat err; fail "$*: not: $words"; }
}

# The version is the first thing looked at; nothing else is to be trusted.
cat >old.c <<'END'
#include <stdint.h>
const void *llmc_pass_plugin(void);
const void *llmc_pass_plugin(void)
{
	static const struct { uint32_t v; const char *bad; } p = {
		999, (const char *)1
	};
	return &p;
}
END
build -o old.so old.c || fail 'old.c'
version=$(sed -n 's/^#define IR_ABI_VERSION //p' "$top_srcdir/ir/ir.h")
refused "is made for version 999 of the IR, and this is version $version" \
	--load-pass=old.so
refused 'cannot load plug-in' --load-pass=none.so
refused 'cannot load plug-in' --load-pass=in.ir
refused 'no symbol `llmc_pass_plugin`' --load-pass=x.so
refused 'there is already a pass `count-ops`, from count-ops.so' \
	--load-pass=count-ops.so --load-pass=./count-ops.so

sed 's/"count-ops", 0/"cse", 0/' \
	"$top_srcdir/examples/pass-plugin/count-ops.c" >taken.c
build -o taken.so taken.c || fail 'taken.c'
refused 'there is already a pass `cse`, built in' --load-pass=taken.so
sed 's/"count-ops", 0/"a,b", 0/' \
	"$top_srcdir/examples/pass-plugin/count-ops.c" >odd.c
build -o odd.so odd.c || fail 'odd.c'
refused 'pass `a,b` lacks a name' --load-pass=odd.so
