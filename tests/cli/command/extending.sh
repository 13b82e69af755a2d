#!/bin/sh
# The changes that docs/extending.md walks through, made on a copy of the
# sources: each is a committed patch of tests/extend, none breaks a list
# elsewhere, and what they add works.  The plug-ins are tested by plugin.sh
# and by installcheck.
. "${top_srcdir:?}/tests/lib.sh"
need compiler
command -v patch >/dev/null || skip 'no patch'

# What a build needs, writable, and no build that lies beside it.
mkdir copy
(cd "$top_srcdir" && find . -name 'build*' -prune -o -name .git -prune -o \
	-type f ! -name '*.o' ! -name '*.a' -print | tar -cf - -T -) |
	tar -C copy -xf - || fail 'no copy'
chmod -R u+w copy
for change in op schedule accelerator; do
	patch -sd copy -p1 -i "$tests/extend/$change.patch" >out 2>&1 ||
		fail "$change.patch does not apply"
done

# The page shows what the patches change.
for line in 'MAP_OP(SWISH, swish, "beta"' '{ "eager_1f1b", eager_1f1b,' \
	'targets/example-npu.target'; do
	grep -qF "$line" "$top_srcdir/docs/extending.md" ||
		bad "docs/extending.md does not show $line"
done

# To build the copy takes a minute: on each fourth day.
today 4 || exit $failed

# The runtime includes nothing of the compiler, so it is that of this build.
# make compares the times of stamps, objects and archives, in this order.
old=$LLMC
mkdir copy/build
(cd "$build" && for kind in .dirstamp '*.o' '*.a'; do
	find runtime -name "$kind"
done | tar -cf - -T -) | tar -C copy/build -xmf - || fail 'no runtime'
# What configure has found out about this machine holds for the copy.
grep '^[a-z]*_cv_[a-zA-Z0-9_]*=' "$build/config.log" | grep -v '^ac_cv_env_' \
	>copy/build/config.cache
(cd copy/build && ../configure --cache-file=config.cache CFLAGS=-O0 \
	--disable-dependency-tracking &&
	make -j2 llmc runtime/librank.a \
		tests/unit/ir/t-ops tests/unit/passes/t-autodiff tests/unit/sched/t-sched) \
	>out 2>err || fail 'the copy does not build'
LLMC=$tmp/copy/build/llmc

# The lists that tests hold know the additions by their rows alone.
for unit in ir/t-ops passes/t-autodiff sched/t-sched; do
	top_srcdir=$tmp/copy "copy/build/tests/unit/$unit" >out 2>&1 ||
		bad "$unit fails with the additions"
done
find "$tests" -name '*.llm' -path '*/target/*' -o -name '*.llm' \
	-path '*/plan/*' | sort >pairs
test -s pairs || bad 'no pairs of targets and plans'
while read -r pair; do
	LLMC=$LLMC sh "$tests/run-pair" "$pair" >out 2>err ||
		bad "$pair does not expect additions"
done <pairs

# An op: called, differentiated, split, and compiled.
sed 's/silu(linear/swish(beta = 1.5, linear/' "$examples/tiny-dense.llm" \
	>swish.llm
cmp -s swish.llm "$examples/tiny-dense.llm" && bad 'the model is the same'
run eval --compare --steps 2 --pin tp=2,dp=2 swish.llm
grep -q '^compared .* at most [0-9.]*e-1[0-9] apart' out ||
	bad 'swish is not the same when it is split'
if have llvm linker binaries; then
	run --draft --target cpux2 --cpu x86-64-v3 --pin tp=2 swish.llm -o plan
	plan/rank verify --local >out 2>&1 || bad 'compiled swish differs'
fi
run --emit=cuda --target h100x2 --pin tp=2 swish.llm
grep -q 'swish' out && grep -q '\* 1\.5' out || bad 'no kernel for swish'

# A schedule: listed, sound, and in the search's space.
run --list-schedules
grep -q '^eager_1f1b ' out || bad 'the schedule is not listed'
run schedule eager_1f1b --ranks 4 --summary
grep -q '^rank 0: .* holds at most 5 forwards' out || bad 'another schedule'
run eval --compare --steps 1 --pin pp=2,schedule=eager_1f1b,microbatch=1 \
	"$examples/tiny-dense.llm"

# An accelerator: listed, and planned for.
run --list-targets
grep -qx example-npu out || bad 'the accelerator is not listed'
run --target example-npux8 "$examples/gpt2-xl.llm"
grep -q '^target  *example-npux8: 8 of 8 devices' out || bad 'no plan for it'
LLMC=$old
refused 'there is no accelerator `example-npu`' target example-npu
exit $failed
