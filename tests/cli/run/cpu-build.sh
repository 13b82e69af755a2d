#!/bin/sh
# A plan for CPUs as a program: the same bytes each time, whole or not at all,
# and what is refused.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker
model=$examples/tiny-dense.llm

# built NAME ARGUMENTS..: and the same, if it is compiled whether or not it was
# before
built()
{
	name=$1
	shift
	run -w "$@" -o "$name.1" "$model" || return
	[ -x "$name.1/rank" ] || bad "$name: no program"
	run -w "$@" --no-cache -o "$name.2" "$model" || return
	for file in plan.json plan.llp rank; do
		cmp "$name.1/$file" "$name.2/$file" || bad "$name: $file"
	done
}

# Whatever the folder is called; nothing says where it was made.
built one --target cpux1 --draft
built four --target cpux4 --pin tp=2,pp=2 --no-whole
built data --target cpux2 --pin dp=2,zero=3 --cpu x86-64-v4 --no-whole --draft
for name in one four data; do
	# the runtime has the pattern of such a folder's name, XXXXXX
	if grep -qF "$tmp" "$name.1/rank" ||
		grep -aoE '/llmc-[[:alnum:]_.-]+' "$name.1/rank" |
		grep -qv 'XXXXXX$'
	then
		bad "$name: paths in the program"
	fi
done
run -w --target cpux4 --pin tp=2,pp=2 --emit=llvm "$model"
grep -q 'define.*stage1_backward\|define.*stage1_input' out ||
	bad 'no function of a stage'
grep -q '@llmc_plan = ' out || bad 'no plan'

# What was estimated is what is allocated, to the byte.
if four.1/rank inspect >inspect 2>err; then
	for bytes in $(sed -n 's/^ *arena  *\([0-9]*\) bytes.*/\1/p' inspect); do
		grep -qw "$bytes" four.1/plan.json ||
			bad "an arena of $bytes bytes is not in plan.json"
	done
	[ -s inspect ] || bad 'nothing to inspect'
fi

# Who is first to add to a gradient stores. Zeroed is what only some rows of
# are added to: an embedding of 256 x 64.
for pins in microbatch=4 microbatch=1; do
	run -w --draft --no-whole --target cpux1 --pin "$pins" -o sums "$model"
	sums/rank inspect >inspect 2>err || continue
	zero=$(sed -n 's/^ *zeroed each step  *\([0-9]*\) bytes.*/\1/p' inspect)
	[ "$zero" = 65536 ] || bad "$pins: $zero bytes are zeroed"
	rm -rf sums
done

# What was compiled before is taken as it is; what is broken is made again.
drafted()
{
	LLMC_CACHE=$tmp/cache "$LLMC" -w --draft --target cpux1 "$@" "$model" \
		>out 2>err || bad "draft $*"
}
drafted --no-cache -o fresh
[ ! -e cache ] || bad 'a cache in spite of --no-cache'
drafted -o first
ls -i cache >entries
grep -q 'image$' entries || bad 'nothing is in the cache'
drafted -o kept
ls -i cache | cmp - entries || bad 'what is in the cache is compiled'
for entry in cache/*; do
	printf x | dd of="$entry" bs=1 seek=2000 conv=notrunc 2>/dev/null
done
drafted -o broken
ls -i cache | cmp -s - entries && bad 'broken objects stay'
for name in first kept broken; do
	cmp $name/rank fresh/rank || bad "$name: another program"
done

# Into a folder that is there: the program is replaced.
mkdir there
echo mine >there/notes
echo old >there/rank
run -w --draft --target cpux1 -o there "$model"
cmp there/rank one.1/rank || bad 'the old program stays'
[ -x there/rank ] || bad 'the new program does not run'
[ "$(cat there/notes)" = mine ] || bad 'the notes are gone'

# unbuilt WORDS ARGUMENTS..: refused, and nothing is left behind
unbuilt()
{
	refused "$@" -w --draft -o none "$model"
	[ "$(echo none*)" = 'none*' ] || bad "$*: leaves something"
}

unbuilt 'there is no CPU `x86-64-v5` (did you mean `x86-64-v' \
	--target cpux1 --cpu x86-64-v5
unbuilt 'there is no CPU `natve` (did you mean `native`?)' \
	--target cpux1 --cpu natve
unbuilt 'there is no feature `amx-tiel` of a CPU (did you mean `amx-tile`?)' \
	--target cpux1 --cpu native+gfni+amx-tiel
unbuilt 'there is no feature `` of a CPU: there are sse3' --target cpux1 \
	--cpu x86-64-v3+
unbuilt 'there is no CPU ``' --target cpux1 --cpu +avx2
unbuilt '--cpu needs a target with code' --target mi250x1 \
	--cpu native
unbuilt '--arch needs an NVIDIA GPU' --target cpux1 --arch sm_80
unbuilt '--arch needs an NVIDIA GPU' --target mi250x1 --arch sm_80
unbuilt 'there are no kernels for `sm_91` (did you mean `sm_' \
	--target rtx4090x1 --arch sm_91
unbuilt '--emit=cuda needs a GPU' --target cpux1 --emit=cuda
unbuilt '--emit=cuda needs a target with code' \
	--target mi250x1 --emit=cuda
refused '--cpu needs an output with code' -w --target cpux1 --cpu native \
	"$model"
export LLMC_LINKER=/nowhere/cc
unbuilt 'the linker `/nowhere/cc` cannot be run' --target cpux1
LLMC_LINKER=false
unbuilt 'the linker `false` failed' --target cpux1
unset LLMC_LINKER
export TMPDIR=/nowhere
unbuilt 'cannot make /nowhere/llmc-' --target cpux1
unset TMPDIR

if [ "$(id -u)" -ne 0 ]; then
	mkdir closed
	chmod a-w closed
	refused 'cannot write closed/plan' -w --target cpux1 -o closed/plan \
		"$model"
fi
refused 'cannot write nowhere/plan' -w --target cpux1 -o nowhere/plan "$model"

# Without kernels for it a plan says so, and is written; an old program goes.
mkdir gpu
echo old >gpu/rank
echo old >gpu/emulate.so
cp gpu/rank mine
run -w --target mi250x1 -o gpu "$model"
grep -q 'there are no kernels for `gfx90a`: there are for sm_80' err ||
	bad 'no note'
cmp gpu/rank mine || bad 'a file that was there before a plan is gone'
run -w --target mi250x1 -o gpu "$model"
[ ! -e gpu/rank ] || bad 'a program for a GPU'
[ ! -e gpu/emulate.so ] || bad 'an emulator without a program'
refused 'gpu has nothing to finish' finish gpu
exit $failed
