#!/bin/sh
# What users get wrong with a plan for CPUs: files that are broken, ranks that
# do not belong together, machines that do not fit.  Each is refused in a line
# that says what is wrong, and nothing is written.
. "${top_srcdir:?}/tests/lib.sh"
need binaries
model=$examples/tiny-dense.llm

# unbuilt WORDS ARGUMENTS..: refused, and nothing is there
unbuilt()
{
	refused "$@" -w -o none
	test "$(echo none*)" = 'none*' || bad "llmc $*: leaves a folder"
}

have llvm || {
	unbuilt 'code for a CPU needs LLVM' --target cpux1 "$model"
	skip 'no llvm'
}
need linker

run -w --draft --target cpux4 --pin tp=2,pp=2 -o one "$model"
run -w --draft --target cpux4 --pin dp=2,pp=2 -o two "$model"
one/rank bench --local --steps 1 >out 2>err || skip "$(cat err)"

# declined STATUS TEXT COMMAND..: with that in a line of an error, before the
# first step
declined()
{
	wanted=$1 text=$2
	shift 2
	timeout 600 "$@" >out 2>err
	got=$?
	test $got = "$wanted" || bad "$*: exit status $got, not $wanted"
	grep -q "^rank\\( [0-3]\\( ([a-z= 0-9]*)\\)*\\)*: .*$text" err ||
		bad "$*: no '$text'"
	grep '^step' out && bad "$*: it trains"
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
$train --data llmc.bin >out 2>err || bad "llm.c's"
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

declined 1 'cut.bin: found 900 tokens in the header' $train --data cut.bin
declined 1 'count.bin: found 900 tokens .* 2800 bytes, expected 2824' \
	$train --data count.bin
declined 1 'odd.bin: found 1999 bytes' $train --data odd.bin
declined 1 'empty.bin: found an empty file' $train --data empty.bin
declined 1 'short.bin: found 10 tokens, expected at least 17' \
	$train --data short.bin
declined 1 'alone.bin: cannot open' $train --data alone.bin
declined 1 "alone.idx: found Megatron's index" $train --data alone.idx
declined 1 'less.bin: found 1000 bytes, expected 1200' $train --data less.bin
declined 1 'folder: found a directory' $train --data folder
declined 1 '/dev/null: found a pipe, socket or device' $train --data /dev/null
declined 1 'nofile: cannot open' $train --data nofile
$train --data beyond.bin >out 2>err && bad 'a token beyond the vocabulary'
grep -q '^rank [0-3] .*beyond.bin: found token 256 as number 300' err ||
	bad 'beyond'

# ---- checkpoints ----

$train --data good.bin --every 6 --checkpoint whole >out 2>err ||
	bad 'a run that is whole'
# Where a byte of a tensor lies, not of a header.
for file in model.safetensors state.safetensors checkpoint.json; do
	for how in cut emptied changed removed; do
		rm -rf ck before
		cp -r whole ck
		at=ck/step-00000012/$file
		case $how in
		cut) head -c 2000 "$at" >part && mv part "$at" ;;
		emptied) : >"$at" ;;
		changed)
			printf '\252' | dd of="$at" bs=1 conv=notrunc seek=$((
				$(wc -c <"$at") - 301)) 2>dd.err
			cmp -s "$at" "whole/step-00000012/$file" && continue
			;;
		removed) rm "$at" ;;
		esac
		cp -r ck before
		declined 1 "ck/step-00000012" one/rank train --local \
			--data good.bin --steps 13 --resume ck/step-00000012
		diff -r ck before || bad "$file $how: changed"
		# the one before it is whole, and taken if that shows at once
		one/rank train --local --data good.bin --steps 12 \
			--checkpoint ck --resume >out 2>err
		got=$?
		case $how-$file in
		changed-*.safetensors)
			test $got = 1 || bad "$file $how: $got" ;;
		*)
			test $got = 0 || bad "$file $how"
			grep -q 'resumed at step 6' out || bad "$file $how"
			diff -r whole ck || bad "$file $how: other bytes"
			;;
		esac
	done
done

sed 's/ffn = 160/ffn = 96/' "$model" >shape.llm
sed 's/self_attn.o_proj/self_attn.dense/' "$model" >name.llm
sed 's/dtype f32/dtype bf16/' "$model" >type.llm
for other in shape name type; do
	run -w --draft --target cpux1 -o $other $other.llm
done
declined 1 'expected \[.*ffn=96' shape/rank train --data good.bin --steps 13 \
	--resume whole
declined 1 "self_attn.dense.weight': not found" name/rank train \
	--data good.bin --steps 13 --resume whole
declined 1 'step-00000012/[a-z]*.safetensors: tensor' type/rank train \
	--data good.bin --steps 13 --resume whole
declined 1 'good.bin: found a file, expected a folder' $train --data good.bin \
	--checkpoint good.bin
declined 1 'good.bin: cannot open: Not a directory' $train --data good.bin \
	--resume good.bin
declined 1 'folder: found no checkpoint' $train --data good.bin --resume folder
declined 1 'no/where: cannot make the folder: No such file' $train \
	--data good.bin --checkpoint no/where
if test "$(id -u)" -ne 0; then
	mkdir closed unread
	chmod a-w closed
	chmod a-r unread
	declined 1 'closed: cannot write into the folder' $train \
		--data good.bin --checkpoint closed
	declined 1 'unread: cannot open: Permission denied' $train \
		--data good.bin --checkpoint unread --resume
	chmod a+rw closed unread
fi

# ---- ranks ----

declined 1 'the plan is for 4 ranks, torchrun started 3' env RANK=0 \
	WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3 one/rank bench
declined 1 'the plan is for 4 ranks, Open MPI started 2' env \
	OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 \
	OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 one/rank bench
declined 1 'the plan is for 4 ranks, Slurm started 8' env SLURM_PROCID=0 \
	SLURM_NTASKS=8 SLURM_STEP_ID=0 SLURM_LOCALID=0 \
	'SLURM_TASKS_PER_NODE=4(x2)' one/rank bench
declined 1 "the variable RANK is '5', expected a number from 0 to 3" env \
	RANK=5 WORLD_SIZE=4 one/rank bench
declined 1 'RANK is .1., but WORLD_SIZE, .* is not set' env RANK=1 \
	one/rank bench
declined 1 'RANK says rank 1, but LOCAL_RANK says 3' env RANK=1 WORLD_SIZE=4 \
	LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 one/rank bench
declined 1 'torchrun has started 4 already' env RANK=0 WORLD_SIZE=4 \
	LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 one/rank bench --local
declined 1 'no launcher started the others: --local' one/rank bench
declined 1 "1 of this host's 4 ranks have come .*missing.*: 1, 2, 3" env \
	RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 MASTER_PORT=$$ \
	one/rank bench --timeout 0.5

# Three ranks of one plan, and one of another.
for i in 0 1 2 3; do
	plan=one
	test $i = 2 && plan=two
	env RANK=$i LOCAL_RANK=$i WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 \
		MASTER_PORT=$$ timeout 600 $plan/rank train --data draw \
		--steps 2 --checkpoint mixed >out.$i 2>err.$i &
	eval "job$i=\$!"
done
for i in 0 1 2 3; do
	eval "wait \$job$i"
	test $? = 1 || bad "mixed plans: rank $i"
	grep -q "^rank $i .*: rank 2 runs another plan than rank 0" err.$i ||
		bad "mixed plans: $(cat err.$i)"
done
test -e mixed && bad 'mixed plans: a folder'

# ---- machines ----

if ! grep -q amx_tile /proc/cpuinfo; then
	run -w --draft --target cpux1 --cpu sapphirerapids -o amx "$model"
	declined 1 \
		'for the CPU sapphirerapids and needs .*compile it with --cpu' \
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
	test $got = 1 || bad "no memory: exit status $got"
	grep -q '^rank [0-3] .*: cannot map .*arena: Cannot allocate' err ||
		bad 'no memory'
fi
# Few files: the rank that cannot open one says so, and none waits for it.
grep -q __asan_init one/rank || for files in 6 7 8 9 10 11 12 13 14; do
	(
		ulimit -n $files
		timeout 600 one/rank train --local --data draw --steps 2
	) >out 2>err && continue
	got=$?
	test $got = 1 || bad "$files files: exit status $got"
	grep -q '[Tt]oo many open files' err || bad "$files files"
done
one/rank train --local --data draw --steps 2 --threads 1024 >out 2>err ||
	bad 'more threads than the plan has scratch for'
declined 2 '--threads takes a whole number from 1 to 1024' $train \
	--data draw --threads 5000
declined 2 'the nearest is --steps' $train --data draw --stpes 2
declined 2 'the nearest is train' one/rank trian
declined 2 "'more' is neither an option" one/rank bench more
test -e none && bad 'a folder of a run that never began'

# ---- what is not compiled ----

sed 's/dtype f32/dtype f8e4m3/' "$model" >f8.llm
unbuilt 'there is no CPU `z80`: there are native,' --target cpux1 --cpu z80 \
	"$model"
unbuilt 'numbers of type f8e4m3 are not kept or exchanged by CPUs' \
	--target cpux1 f8.llm
refused 'good.bin is not a folder' -w --target cpux1 -o good.bin "$model"
exit $failed
