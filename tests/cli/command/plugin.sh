#!/bin/sh
# Plug-ins: the example counts, another version of the IR is refused, and so
# are missing files, missing symbols and names that are taken.
. "${top_srcdir:?}/tests/lib.sh"
need compiler

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

shared count-ops.so -std=c11 -Wall -Wextra -Wpedantic -Werror \
	"$examples/pass-plugin/count-ops.c" || fail 'does not build'

count()
{
	run opt --load-pass=count-ops.so --stats -o out.ir "$@" in.ir
	sed -n 's/^# *\([0-9]*\)  count-ops: neg$/\1/p' err
}
test "$(count --passes=count-ops)" = 2 || fail '--passes: counts wrong'
cmp -s in.ir out.ir || fail 'counting changed the IR'
test "$(count --insert=count-ops@after:cse)" = 1 || fail 'after: wrong'
test "$(count --insert=count-ops@before:cse)" = 2 || fail 'before: wrong'
"$LLMC" --load-pass=./count-ops.so --list-passes | grep -q '^count-ops ' ||
	fail '--list-passes does not list it'

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
shared old.so old.c || fail 'old.c'
version=$(sed -n 's/^#define IR_ABI_VERSION //p' "$top_srcdir/ir/ir.h")
refused "is made for version 999 of the IR, and this is version $version" \
	opt --load-pass=old.so in.ir
refused 'cannot load plug-in' opt --load-pass=none.so in.ir
refused 'cannot load plug-in' opt --load-pass=in.ir in.ir
refused 'no symbol `llmc_pass_plugin`' opt --load-pass=x.so in.ir
for bytes in 40 100 3000 9000; do
	head -c $bytes count-ops.so >cut.so
	refused 'cannot load plug-in: ' opt --load-pass=cut.so in.ir
done
grep -q 'cut.so has 9000 bytes, .* it was not written whole' err ||
	bad 'nobody says what is wrong with a part of a plug-in'
refused 'there is already a pass `count-ops`, from count-ops.so' \
	opt --load-pass=count-ops.so --load-pass=./count-ops.so in.ir

sed 's/"count-ops", 0/"cse", 0/' "$examples/pass-plugin/count-ops.c" >taken.c
shared taken.so taken.c || fail 'taken.c'
refused 'there is already a pass `cse`, built in' opt --load-pass=taken.so in.ir
sed 's/"count-ops", 0/"a,b", 0/' "$examples/pass-plugin/count-ops.c" >odd.c
shared odd.so odd.c || fail 'odd.c'
refused 'pass `a,b` lacks a name' opt --load-pass=odd.so in.ir
exit $failed
