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
for header in $(cd "$include" && find . -name '*.h' | sort); do
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

# A plug-in that prices rank programs finds all that it needs, and the time of
# a step that the answer prints.
# shellcheck disable=SC2086
$CC -shared -fPIC "-I$include" -o price.so "$examples"/pass-price/*.c ||
	fail 'the example that prices does not compile'
run --load-pass=./price.so --insert=price-step@after:check --stats \
	--target h100x8 --emit=answer "$model"
us=$(sed -n 's/^# *\([0-9]*\)  price-step: microseconds of a step$/\1/p' err)
ms=$(sed -n 's/^step  *\([0-9]*\)\.\([0-9]*\) ms$/\1\2/p' out)
test -n "$us" && test "$us" -eq "$ms" ||
	bad "the plug-in counts $us us, and the answer prints $ms"

# What plans are linked of, and what plans for GPUs get beside that.
for part in librank.a emulate.so; do
	[ -s "$DESTDIR${pkglibdir:?}/$part" ] || bad "there is no $part"
done
exit $failed
