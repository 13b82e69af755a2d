#!/bin/sh
# What users get wrong with a plan for CPUs: files that are broken, ranks that
# do not belong together, machines that do not fit.  Each is refused in a line
# that says what is wrong, and nothing is written.
set -u
[ "${BINARY_TESTS-}" = skip ] && exit 77
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
model=${top_srcdir:?}/examples/tiny-dense.llm
cd "$tmp" || exit 99
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
status=0

"$LLMC" --version | grep -q '^cpu: LLVM' || {
	"$LLMC" -w --target cpux1 -o none "$model" >out 2>err && exit 1
	cat err
	grep -q 'code for a CPU needs LLVM' err && test ! -e none || exit 1
	exit 77
}
${LLMC_LINKER:-${CC:-cc}} --version >/dev/null 2>&1 || exit 77

fail()
{
	echo "FAIL $*"
	status=1
}

# built FOLDER FILE ARGUMENTS..
built()
{
	folder=$1 file=$2
	shift 2
	"$LLMC" -w --draft "$@" -o "$folder" "$file" >out 2>err ||
		fail "llmc $*: $(cat err)"
}

built one "$model" --target cpux4 --pin tp=2,pp=2
built two "$model" --target cpux4 --pin dp=2,pp=2
one/rank bench --local --steps 1 >out 2>err || exit 77

# refused STATUS TEXT COMMAND..: with that in a line of an error, before the
# first step
refused()
{
	wanted=$1 text=$2
	shift 2
	timeout 20 "$@" >out 2>err
	got=$?
	test $got = "$wanted" || fail "$*: exit status $got, not $wanted"
	grep -q "^rank\\( [0-3]\\( ([a-z= 0-9]*)\\)*\\)*: .*$text" err ||
		fail "$*: no '$text' in: $(cat err)"
	grep '^step' out && fail "$*: it trains"
	return 0
}

train='one/rank train --local --steps 12'

# ---- files of tokens ----

# u16 N, u32 N: a number in two bytes, in four
u16()
{
	printf "\\$(printf %03o $(($1 % 256)))\\$(printf %03o $(($1 / 256 % 256)))"
}

u32()
{
	u16 $(($1 % 65536))
	u16 $(($1 / 65536))
}

head -c 2000 /dev/zero >good.bin
{
	u32 20240520
	u32 1
	u32 900
	head -c 1012 /dev/zero
	head -c 1800 /dev/zero
} >llmc.bin
$train --data llmc.bin >out 2>err || fail "llm.c's: $(cat err)"
head -c 600 llmc.bin >cut.bin
head -c 2800 llmc.bin >count.bin
{
	head -c 600 /dev/zero
	u16 256
	head -c 1400 /dev/zero
} >beyond.bin
head -c 1999 good.bin >odd.bin
: >empty.bin
head -c 20 good.bin >short.bin
{
	printf 'MMIDIDX\000\000'
	u32 1
	u32 0
	printf '\010'
	u32 1
	u32 0
	u32 1
	u32 0
	u32 600
	head -c 16 /dev/zero
} >alone.idx
cp alone.idx less.idx
head -c 1000 good.bin >less.bin
mkdir folder

refused 1 'cut.bin: found 900 tokens in the header' $train --data cut.bin
refused 1 'count.bin: found 900 tokens .* 2800 bytes, expected 2824' \
	$train --data count.bin
refused 1 'odd.bin: found 1999 bytes' $train --data odd.bin
refused 1 'empty.bin: found an empty file' $train --data empty.bin
refused 1 'short.bin: found 10 tokens, expected at least 17' \
	$train --data short.bin
refused 1 'alone.bin: cannot open' $train --data alone.bin
refused 1 "alone.idx: found Megatron's index" $train --data alone.idx
refused 1 'less.bin: found 1000 bytes, expected 1200' $train --data less.bin
refused 1 'folder: found a directory' $train --data folder
refused 1 '/dev/null: found a pipe, socket or device' $train --data /dev/null
refused 1 'nofile: cannot open' $train --data nofile
$train --data beyond.bin >out 2>err && fail 'a token beyond the vocabulary'
grep -q '^rank [0-3] .*beyond.bin: found token 256 as number 300' err ||
	fail "beyond: $(cat err)"

# ---- checkpoints ----

$train --data good.bin --every 6 --checkpoint whole >out 2>err ||
	fail "$(cat err)"
# Where a byte of a tensor lies, not of a header.
for file in model.safetensors state.safetensors checkpoint.json; do
	for how in cut emptied changed removed; do
		rm -rf ck before
		cp -r whole ck
		at=ck/step-00000012/$file
		case $how in
		cut) head -c 2000 "$at" >cut && mv cut "$at" ;;
		emptied) : >"$at" ;;
		changed)
			printf '\252' | dd of="$at" bs=1 conv=notrunc seek=$((
				$(wc -c <"$at") - 301)) 2>dd.err
			cmp -s "$at" "whole/step-00000012/$file" && continue
			;;
		removed) rm "$at" ;;
		esac
		cp -r ck before
		refused 1 "ck/step-00000012" one/rank train --local \
			--data good.bin --steps 13 --resume ck/step-00000012
		diff -r ck before || fail "$file $how: changed"
		# the one before it is whole, and taken if that shows at once
		one/rank train --local --data good.bin --steps 12 \
			--checkpoint ck --resume >out 2>err
		got=$?
		case $how-$file in
		changed-*.safetensors)
			test $got = 1 || fail "$file $how: $got" ;;
		*)
			test $got = 0 || fail "$file $how: $(cat err)"
			grep -q 'resumed at step 6' out ||
				fail "$file $how: $(cat out)"
			diff -r whole ck || fail "$file $how: other bytes"
			;;
		esac
	done
done

sed 's/ffn = 160/ffn = 96/' "$model" >shape.llm
sed 's/self_attn.o_proj/self_attn.dense/' "$model" >name.llm
sed 's/dtype f32/dtype bf16/' "$model" >type.llm
for other in shape name type; do
	built $other $other.llm --target cpux1
done
refused 1 'expected \[.*ffn=96' shape/rank train --data good.bin --steps 13 \
	--resume whole
refused 1 "self_attn.dense.weight': not found" name/rank train \
	--data good.bin --steps 13 --resume whole
refused 1 'step-00000012/[a-z]*.safetensors: tensor' type/rank train \
	--data good.bin --steps 13 --resume whole
refused 1 'good.bin: found a file, expected a folder' $train --data good.bin \
	--checkpoint good.bin
refused 1 'good.bin: cannot open: Not a directory' $train --data good.bin \
	--resume good.bin
refused 1 'folder: found no checkpoint' $train --data good.bin --resume folder
refused 1 'no/where: cannot make the folder: No such file' $train \
	--data good.bin --checkpoint no/where
if test "$(id -u)" -ne 0; then
	mkdir closed unread
	chmod a-w closed
	chmod a-r unread
	refused 1 'closed: cannot write into the folder' $train \
		--data good.bin --checkpoint closed
	refused 1 'unread: cannot open: Permission denied' $train \
		--data good.bin --checkpoint unread --resume
	chmod a+rw closed unread
fi

# ---- ranks ----

refused 1 'the plan is for 4 ranks, torchrun started 3' env RANK=0 \
	WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3 one/rank bench
refused 1 'the plan is for 4 ranks, Open MPI started 2' env \
	OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 \
	OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 one/rank bench
refused 1 'the plan is for 4 ranks, Slurm started 8' env SLURM_PROCID=0 \
	SLURM_NTASKS=8 SLURM_STEP_ID=0 SLURM_LOCALID=0 \
	'SLURM_TASKS_PER_NODE=4(x2)' one/rank bench
refused 1 "the variable RANK is '5', expected a number from 0 to 3" env \
	RANK=5 WORLD_SIZE=4 one/rank bench
refused 1 'RANK is .1., but WORLD_SIZE, .* is not set' env RANK=1 \
	one/rank bench
refused 1 'RANK says rank 1, but LOCAL_RANK says 3' env RANK=1 WORLD_SIZE=4 \
	LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 one/rank bench
refused 1 'torchrun has started 4 already' env RANK=0 WORLD_SIZE=4 \
	LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 one/rank bench --local
refused 1 'nobody started others: --local' one/rank bench
refused 1 "1 of this host's 4 ranks have come .*missing.*: 1, 2, 3" env \
	RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 MASTER_PORT=$$ \
	one/rank bench --timeout 0.5

# Three ranks of one plan, and one of another.
for i in 0 1 2 3; do
	plan=one
	test $i = 2 && plan=two
	env RANK=$i LOCAL_RANK=$i WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 \
		MASTER_PORT=$$ timeout 20 $plan/rank train --data draw \
		--steps 2 --checkpoint mixed >out.$i 2>err.$i &
	eval "job$i=\$!"
done
for i in 0 1 2 3; do
	eval "wait \$job$i"
	test $? = 1 || fail "mixed plans: rank $i"
	grep -q "^rank $i .*: rank 2 runs another plan than rank 0" err.$i ||
		fail "mixed plans: $(cat err.$i)"
done
test -e mixed && fail 'mixed plans: a folder'

# ---- machines ----

if ! grep -q amx_tile /proc/cpuinfo; then
	built amx "$model" --target cpux1 --cpu sapphirerapids
	refused 1 'for the CPU sapphirerapids and needs .*compile it with --cpu' \
		amx/rank train --data draw --steps 2 --checkpoint none
fi
(
	# a sanitizer's shadow alone is larger
	grep -q __asan_init one/rank && exit 77
	ulimit -v 20000 2>/dev/null || exit 77
	one/rank train --local --data draw --steps 2 --checkpoint none
) >out 2>err
got=$?
if test $got != 77; then
	test $got = 1 || fail "no memory: exit status $got"
	grep -q '^rank [0-3] .*: cannot map .*arena: Cannot allocate' err ||
		fail "no memory: $(cat err)"
fi
# Few files: the rank that cannot open one says so, and none waits for it.
grep -q __asan_init one/rank || for files in 6 7 8 9 10 11 12 13 14; do
	(
		ulimit -n $files
		timeout 20 one/rank train --local --data draw --steps 2
	) >out 2>err && continue
	got=$?
	test $got = 1 || fail "$files files: exit status $got"
	grep -q '[Tt]oo many open files' err || fail "$files files: $(cat err)"
done
one/rank train --local --data draw --steps 2 --threads 1024 >out 2>err ||
	fail "more threads than the plan has room for: $(cat err)"
refused 2 '--threads takes a whole number from 1 to 1024' $train \
	--data draw --threads 5000
refused 2 'the nearest is --steps' $train --data draw --stpes 2
refused 2 'the nearest is train' one/rank trian
refused 2 "'more' is neither an option" one/rank bench more
test -e none && fail 'a folder of a run that never began'

# ---- what is not compiled ----

# not TEXT ARGUMENTS..: exit status 1, and nothing is there
not()
{
	text=$1
	shift
	"$LLMC" -w "$@" -o none >out 2>err
	test $? = 1 || fail "llmc $*"
	grep -q -e "$text" err || fail "llmc $*: no '$text' in: $(cat err)"
	test "$(echo none*)" = 'none*' || fail "llmc $*: leaves a folder"
}

sed 's/dtype f32/dtype f8e4m3/' "$model" >f8.llm
not 'there is no CPU .z80.: there are native,' --target cpux1 --cpu z80 "$model"
not 'numbers of type f8e4m3 are not kept or exchanged by CPUs' \
	--target cpux1 f8.llm
"$LLMC" -w --target cpux1 -o good.bin "$model" >out 2>err
test $? = 1 || fail 'a plan into a file'
grep -q 'good.bin is no folder' err || fail "a plan into a file: $(cat err)"

# Ended while it compiles: no folder, and none of its own.
mkdir scratch
for ms in 000 050 200 400 800; do
	TMPDIR=$PWD/scratch timeout -s INT 0.$ms "$LLMC" -w --target cpux4 \
		--pin tp=2,pp=2 -o none "$model" >out 2>err
	test "$(ls scratch)" = '' || fail "interrupted: $(ls scratch)"
	test "$(echo none*)" = 'none*' || test -x none/rank ||
		fail "interrupted: $(echo none*)"
	rm -rf none
done
exit $status
