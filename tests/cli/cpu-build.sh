#!/bin/sh
# A plan for CPUs as a program: the same bytes each time, whole or not at all,
# and what is refused. With SLOW_TESTS=skip each is made once.
set -u
tmp=$(mktemp -d) || exit 99
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
model=${top_srcdir:?}/examples/tiny-dense.llm
cd "$tmp" || exit 99
fail=0

bad()
{
	echo "FAIL $*"
	fail=1
}

"$LLMC" --version | grep -q '^cpu: LLVM' || exit 77
cc=${LLMC_LINKER:-${CC:-cc}}
$cc --version >/dev/null 2>&1 || exit 77

again=2
[ "${SLOW_TESTS-}" != skip ] || again=
# built NAME ARGUMENTS..: twice, and the same
built()
{
	name=$1
	shift
	for i in 1 $again; do
		"$LLMC" -w "$@" -o "$name.$i" "$model" >out 2>err || {
			cat err
			bad "$name: llmc $*"
			return
		}
		[ -x "$name.$i/rank" ] || bad "$name: no program"
	done
	for file in ${again:+plan.json plan.llp rank}; do
		cmp "$name.1/$file" "$name.2/$file" || bad "$name: $file"
	done
}

# Whatever the folder is called; nothing says where it was made.
built one --target cpux1
built four --target cpux4 --pin tp=2,pp=2
built data --target cpux2 --pin dp=2,zero=3 --cpu x86-64-v4 --no-whole
for name in one four data; do
	if grep -qF "$tmp" "$name.1/rank" || grep -qF /llmc- "$name.1/rank"
	then
		bad "$name: paths in the program"
	fi
done
"$LLMC" -w --target cpux4 --pin tp=2,pp=2 --emit=llvm "$model" >text ||
	bad --emit=llvm
grep -q 'define.*stage1_backward\|define.*stage1_input' text ||
	bad 'no function of a stage'
grep -q '@llmc_plan = ' text || bad 'no plan'

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
	"$LLMC" -w --target cpux1 --pin "$pins" -o sums "$model" >out ||
		bad "sums, $pins"
	sums/rank inspect >inspect 2>err || continue
	zero=$(sed -n 's/^ *zeroed each step  *\([0-9]*\) bytes.*/\1/p' inspect)
	[ "$zero" = 65536 ] || bad "$pins: $zero bytes are zeroed"
	rm -rf sums
done

# Into a folder that is there: the program is replaced.
mkdir there
echo mine >there/notes
echo old >there/rank
"$LLMC" -w --target cpux1 -o there "$model" >out || bad there
cmp there/rank one.1/rank || bad 'the old program stays'
[ -x there/rank ] || bad 'the new program does not run'
[ "$(cat there/notes)" = mine ] || bad 'the notes are gone'

# refused WORDS ARGUMENTS..: exit 1, and nothing left behind
refused()
{
	words=$1
	shift
	"$LLMC" -w "$@" -o none "$model" >out 2>err
	status=$?
	if [ $status -ne 1 ] || ! grep -qF -e "$words" err || [ -e none ] ||
		[ -s out ]; then
		cat err
		bad "$* exits with $status, or leaves something"
	fi
	if [ "$(echo none.*)" != 'none.*' ]; then
		bad "$*: a folder written half"
	fi
}

refused 'there is no CPU `x86-64-v5` (did you mean `x86-64-v' \
	--target cpux1 --cpu x86-64-v5
refused 'there is no CPU `natve` (did you mean `native`?)' \
	--target cpux1 --cpu natve
refused '--cpu goes with a target that there is code for' --target mi250x1 \
	--cpu native
refused '--arch goes with a GPU of NVIDIA' --target cpux1 --arch sm_80
refused '--arch goes with a GPU of NVIDIA' --target mi250x1 --arch sm_80
refused 'there are no kernels for `sm_91` (did you mean `sm_' \
	--target rtx4090x1 --arch sm_91
refused '--emit=cuda goes with a GPU' --target cpux1 --emit=cuda
refused '--emit=cuda goes with a target that there is code for' \
	--target mi250x1 --emit=cuda
"$LLMC" -w --target cpux1 --cpu native "$model" >out 2>err &&
	bad '--cpu without code'
grep -qF -e '--cpu goes with what has code in it' err || bad '--cpu alone'
LLMC_LINKER=/nowhere/cc
export LLMC_LINKER
refused 'the linker `/nowhere/cc` cannot be run' --target cpux1
LLMC_LINKER=false
refused 'the linker `false` failed' --target cpux1
unset LLMC_LINKER
TMPDIR=/nowhere
export TMPDIR
refused 'cannot make /nowhere/llmc-' --target cpux1
unset TMPDIR

if [ "$(id -u)" -ne 0 ]; then
	mkdir closed
	chmod a-w closed
	"$LLMC" -w --target cpux1 -o closed/plan "$model" >out 2>err &&
		bad 'written into a folder that is closed'
	grep -q 'cannot write closed/plan' err || bad 'closed'
fi
"$LLMC" -w --target cpux1 -o nowhere/plan "$model" >out 2>err
grep -qF 'cannot write nowhere/plan' err || bad 'nowhere'

# Without kernels for it a plan says so, and is written; an old program goes.
mkdir gpu
echo old >gpu/rank
cp gpu/rank mine
"$LLMC" -w --target mi250x1 -o gpu "$model" >out 2>err || bad gpu
grep -q 'there are no kernels for `gfx90a`: there are for sm_80' err ||
	bad 'no note'
cmp gpu/rank mine || bad 'a file that was there before a plan is gone'
"$LLMC" -w --target mi250x1 -o gpu "$model" >out 2>err || bad 'gpu, again'
[ ! -e gpu/rank ] || bad 'a program for a GPU'
"$LLMC" finish gpu >out 2>err && bad 'finished without code'
grep -q 'gpu has nothing to finish' err || bad 'finish: no reason'
exit $fail
