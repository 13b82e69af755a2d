#!/bin/sh
# A program that serves computes a position with the same bits in a step of any
# size, beside any others: 300 drawn traces of requests on one rank, on four,
# with experts on two of four, and in bf16.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
work='prompt=8,output=4,context=16,tokens=72,rows=16,keys=1024,slots=2048'

# The program as it is linked, with the traces in place of `generate`.
LLMC_LINKER="$linker -Wl,--wrap=rt_generate -I${top_srcdir:?} \
	$tests/fakes/serve-traces.c"
export LLMC_LINKER

# traces MODEL OPTION..
traces()
{
	model=$1
	shift
	run --serve --draft "$@" --workload $work -o served "$model" || exit
	./served/rank generate --local --checkpoint ck --prompt x >out 2>err ||
		{ grep -q 'this CPU' err && return; bad "$*: $(cat err)"; }
	grep -q '^steps: [1-9].* [1-9][0-9]* of up to 8, [1-9].* [1-9][0-9]* of more' out ||
		bad "$*: $(cat out)"
	grep -q '^weights in panels: [1-9]' out || bad "$*: $(cat out)"
}

# saved MODEL: weights as a new run draws them
saved()
{
	rm -rf ck
	LLMC_LINKER='' run --target cpux1 --draft --pin microbatch=1 -o whole \
		"$1" || exit
	./whole/rank train --data draw --steps 1 --checkpoint ck >out 2>err ||
		fail "training: $1"
}

saved "$examples/tiny-dense.llm"
traces "$examples/tiny-dense.llm" --target cpux1
traces "$examples/tiny-dense.llm" --target cpux4 --pin tp=2,pp=2
sed 's/dtype f32/dtype bf16/' "$examples/tiny-dense.llm" >narrow.llm
saved narrow.llm
traces narrow.llm --target cpux1 --cpu native
saved "$examples/tiny-moe.llm"
traces "$examples/tiny-moe.llm" --target cpux4 --pin tp=2,ep=2
exit $failed
