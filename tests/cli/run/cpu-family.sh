#!/bin/sh
# One core of any machine is priced by constants of the CPU that --cpu names, if
# llmc has any, and the answer says whose they are.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker
model=$examples/tiny-dense.llm

# priced TARGET CPU WORDS: what the answer says of them; '' nothing
priced()
{
	rm -rf plan
	run -w --draft --no-whole --target "$1" --pin tp=2 --cpu "$2" -o plan \
		"$model"
	if [ "$(sed -n 's/^CPU *//p' out)" != "$3" ]; then
		bad "$1 $2: not '$3': $(grep '^CPU' out)"
	fi
	cp plan/plan.json last.json
}

priced cpux2 sapphirerapids \
	'sapphirerapids, priced by targets/cpu-sapphirerapids.target'
grep -q '"device": "cpu-sapphirerapids"' last.json ||
	bad 'the plan is for another device'
priced cpux2 graniterapids \
	'graniterapids, priced by targets/cpu-sapphirerapids.target, which is a guess'
priced cpux2 znver4+gfni 'znver4, priced by targets/cpu-avx512.target'
priced cpux2 haswell 'haswell, priced by targets/cpu.target, which is a guess'
# Who names a target has it.
priced cpu-avx512x2 x86-64-v3 ''
echo 'target mine { accelerator = cpu; devices = 2; }' >mine.target
priced ./mine.target sapphirerapids ''
# The machine's own, whatever it is; twice the same.
rm -rf plan
run -w --draft --target cpux2 --pin tp=2 --cpu native -o plan "$model"
grep -q '^CPU        [a-z].*, priced by targets/cpu' out || bad native
# A machine that hides AVX-512 or AMX is priced by no CPU that has it.
if [ -r /proc/cpuinfo ]; then
	for pair in 'avx512f cpu-avx512' 'avx512f cpu-znver5' \
			'avx512_bf16 cpu-avx512' 'amx_bf16 cpu-sapphirerapids'; do
		grep -q "^flags.* ${pair% *}\( \|\$\)" /proc/cpuinfo ||
			! grep -q "^CPU .*/${pair#* }\.target" out ||
			bad "native, without ${pair% *}: $(grep '^CPU' out)"
	done
fi
cp plan/rank first
rm -rf plan
run -w --draft --target cpux2 --pin tp=2 --cpu native -o plan "$model"
cmp first plan/rank || bad 'native: not the same bytes'
# A CPU that there is not is an error as ever.
refused 'there is no CPU `z80`' -w --target cpux2 --cpu z80 -o none "$model"
refused '`cpuxx` is no target' -w --target cpuxx --cpu znver4 \
	-o none "$model"
exit $failed
