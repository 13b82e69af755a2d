#!/bin/sh
# llmc calibrate: what it writes is a target that a model can be priced on,
# every number has its origin, and on a CUDA machine that is not one but keeps
# its own time the output is known to the last byte. Speeds are never tested.
. "${top_srcdir:?}/tests/lib.sh"

# plausible FILE: positive, efficiencies at most 1, an origin for each number.
plausible()
{
	awk '
	/^  #/ { origin = 1; next }
	/^  (fp32|tf32|bf16|fp16|bandwidth|launch|matrix_eff|memory_eff|attention_eff|link_eff) = / {
		v = $3 + 0
		if (!origin || v <= 0 || ($1 ~ /_eff$/ && v > 1)) {
			print "not plausible: " $0
			exit 1
		}
		n++
	}
	{ origin = 0 }
	END { if (n < 7) { print n " of the numbers are there"; exit 1 } }
	' "$1" || exit 1
}

# The cores of this machine, whatever they are: by kernels that are compiled.
cores()
{
	"$LLMC" calibrate --quick -o cpu.target >out 2>table ||
		fail "calibrate: $(cat table)"
	test ! -s out || fail 'something on standard output besides -o'
	plausible cpu.target
	for what in contractions weights attention keys streams launch; do
		grep -q "^$what  *kept " table || fail "no table of $what"
	done
	grep -q '^  fp32 256x256x256 ' table || fail 'no fp32 256x256x256'
	grep -q '^  bf16 256x256x256 ' table || fail 'no bf16 256x256x256'
	run target cpu.target || fail 'it does not read back'
	grep -q '^  units = [1-9]' out || fail 'no units'
	"$LLMC" --emit=cost --target cpu.target --pin microbatch=1 \
		"$examples/tiny-dense.llm" >cost ||
		fail 'no model can be priced on it'
	grep -q '^step ' cost || fail 'no time of a step'

	# JSON has the same points, on standard error too.
	"$LLMC" calibrate --quick --json >cpu.target 2>json ||
		fail 'calibrate --json'
	plausible cpu.target
	grep -q '"group": "contractions", "shape": "fp32 256x256x256", "us": ' \
		json || fail 'no such point in the JSON'
	is_json json
}
if have llvm linker; then
	cores
else
	"$LLMC" calibrate --quick -o cpu.target 2>err && fail 'measured nothing'
	test ! -e cpu.target || fail 'a target of no kernels'
fi

# Bad usage is not the same as bad luck.
misused 'calibrate takes no file, found `file`' calibrate file
misused 'did you mean `cuda`' calibrate --device=cdua

# A sanitizer in llmc and none in the fake do not go together.
fake()
{
	shared lib/libcuda.so.1 "$tests/fakes/fake-cuda.c" || return
	cp lib/libcuda.so.1 lib/libcublas.so.13
	cp lib/libcuda.so.1 lib/libnccl.so.2
}
mkdir lib
fake || { echo 'no shared object can be built'; exit $failed; }

# cuda NAME [VARIABLE=VALUE..]: one run on that machine.
cuda()
{
	name=$1
	shift
	env LD_LIBRARY_PATH="$tmp/lib" "$@" "$LLMC" calibrate --quick \
		--device=cuda -o "$name.target" 2>"$name.err"
}

cuda one FAKE_CUDA_DEVICES=1 || fail "one device: $(cat one.err)"
cuda four FAKE_CUDA_DEVICES=4 || fail "four devices: $(cat four.err)"
for name in one four; do
	plausible "$name.target"
	"$LLMC" target "$name.target" >/dev/null || fail "$name: no target"
	want=$tests/data/calibrate-$name
	if test "${UPDATE:-}"; then
		cp "$name.target" "$want.target"
		cp "$name.err" "$want.txt"
	fi
	diff -u "$want.target" "$name.target" || fail "$name: the target"
	diff -u "$want.txt" "$name.err" || fail "$name: the table"
done

# Libraries elsewhere, under other names, as ranks take them.
mkdir elsewhere
mv lib/libcuda.so.1 elsewhere/driver
mv lib/libnccl.so.2 elsewhere/nccl
cuda named FAKE_CUDA_DEVICES=4 LLMC_LIBCUDA="$tmp/elsewhere/driver" \
	LLMC_LIBNCCL="$tmp/elsewhere/nccl" || fail "named: $(cat named.err)"
cmp named.target four.target || fail 'a named driver measures another thing'
mv elsewhere/driver lib/libcuda.so.1
mv elsewhere/nccl lib/libnccl.so.2

# Wrong products are not timed, and nothing is written.
cuda wrong FAKE_CUDA_WRONG=1 && fail 'wrong products are believed'
grep -q 'cublasGemmEx computes .* wrong' wrong.err ||
	fail "wrong: $(cat wrong.err)"
test ! -e wrong.target || fail 'a target of wrong products'

# What is missing has a name.
cuda none FAKE_CUDA_DEVICES=0 && fail 'measured no device'
grep -q 'there is no CUDA device' none.err || fail 'no device: no name'
printf 'int cuInit(unsigned f) { return (int)f; }\n' >old.c
shared lib/libcuda.so.1 old.c || fail old.c
cuda old && fail 'measured with an old driver'
grep -q 'libcuda.so.1 has no cuGetErrorString: it is too old' \
	old.err || fail "old: $(cat old.err)"
printf 'no library\n' >lib/libcuda.so.1
cuda missing && fail 'measured without a driver'
grep -q "libcuda.so.1 is missing: it comes with NVIDIA's driver" \
	missing.err || fail "missing: $(cat missing.err)"
test ! -e missing.target || fail 'a target of no machine'
exit $failed
