#!/bin/sh
# What the emulator looks for, and when: a kernel is checked the first time a
# rank launches it unless LLMC_EMULATE_CHECK says never or always; what is
# found does not depend on the compiler, or on options that LLMC_LINKER gives.
# A barrier is taken out of the text of kernels, on its way to the compiler.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker
export LLMC_NVRTC=/nonexistent LLMC_CACHE="$tmp/cache"

cat >model.llm <<'EOF'
model m {
  dim seq = 128, hidden = 32, ffn = 64, vocab = 48;
  dtype f32;
  x = embed(tokens, vocab -> hidden)            @ "embed";
  x = linear(rmsnorm(x) @ "norm" -> ffn)        @ "up";
  loss = cross_entropy(linear(x -> vocab) @ "head", labels);
}
train { batch = 2; steps = 3; optimizer = adamw(lr = 1e-2); }
EOF
run -w --no-whole --draft --arch sm_80 --target h100x1 model.llm -o plan || exit

# The compiler, but that the first barrier of each kernel's loop is not there.
cat >without <<'EOF'
case " $* " in *" -c "*)
	for last; do :; done
	sed '/cp_async_wait(1);/{n;s/sync_block();/;/;}' "$last" >"$last.new" &&
		mv "$last.new" "$last"
esac
exec $CUT_CC "$@"
EOF
export CUT_CC="$linker"

# trained WHAT [VARIABLES]: to its end
trained()
{
	what=$1
	shift
	env "$@" timeout 900 plan/rank train --local --device emulate \
		--data draw --steps 3 >out 2>err
	status=$?
	[ $status -eq 0 ] || bad "$what: exit status $status"
	sed -n 's/^step [0-9]* loss \([^ ]*\).*/\1/p' out >losses
}

# found WHAT [VARIABLES]: the race is reported
found()
{
	what=$1
	shift
	env "$@" timeout 900 plan/rank train --local --device emulate \
		--data draw --steps 3 >out 2>err
	status=$?
	[ $status -eq 1 ] && grep -q 'dot.*: block 0,0,0: thread [0-9]*: ' err &&
		grep -q 'no barrier in\|still fills\|nobody has written' err ||
		bad "$what: exit status $status, and no race"
}

trained 'checked first'
cp losses wanted
[ "$(wc -l <wanted)" -eq 3 ] || bad 'there are not three steps'

# The emulator moves with the folder of the plan; a program alone has none, or
# may find that of another version.
mkdir far alone
mv plan far
ln -s far/plan plan
trained 'moved'
cmp wanted losses || bad 'other losses where the folder was moved to'
cp plan/rank alone
alone/rank train --local --device emulate --data draw >out 2>err
[ $? -eq 1 ] && grep -qF 'emulate.so, is not beside this program' err ||
	bad 'a program without its emulator'
echo >alone/emulate.so
alone/rank train --local --device emulate --data draw >out 2>err
[ $? -eq 1 ] && grep -qF 'the emulator cannot be loaded: ' err ||
	bad 'a program beside what is no emulator'
trained 'never checked' LLMC_EMULATE_CHECK=0
cmp wanted losses || bad 'other losses, never checked'
trained 'always checked' LLMC_EMULATE_CHECK=1
cmp wanted losses || bad 'other losses, always checked'

cut="sh $tmp/without"
trained 'a race that nobody looks for' LLMC_LINKER="$cut" LLMC_EMULATE_CHECK=0
found 'by default' LLMC_LINKER="$cut"
found 'each time' LLMC_LINKER="$cut" LLMC_EMULATE_CHECK=1
found 'with -O0' LLMC_LINKER="$cut -O0"
for cc in gcc clang; do
	if command -v $cc >/dev/null; then
		trained "by $cc" LLMC_LINKER="$cc"
		cmp wanted losses || bad "other losses by $cc"
		found "by $cc" LLMC_LINKER="$cut" CUT_CC=$cc
		rm -r cache
	fi
done
LLMC_EMULATE_CHECK=often plan/rank train --local --device emulate \
	--data draw --steps 1 >out 2>err
[ $? -eq 1 ] && grep -qF "LLMC_EMULATE_CHECK is 'often', expected first, 0" \
	err || bad 'a word that there is not'
LLMC_EARLY_LAUNCH=yes plan/rank train --local --device emulate \
	--data draw --steps 1 >out 2>err
[ $? -eq 1 ] && grep -qF "LLMC_EARLY_LAUNCH is 'yes', expected 0" err ||
	bad 'a word that there is not for early launches'
exit $failed
