#!/bin/sh
# llmc calibrate: what it writes is a target that a model can be priced on,
# every number has its origin, and on a CUDA machine that is not one but keeps
# its own time the output is known to the last byte. Speeds are never tested.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT

fail()
{
	echo "$*"
	exit 1
}

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

# The cores of this machine, whatever they are.
"$LLMC" calibrate --quick -o "$tmp/cpu.target" >"$tmp/out" 2>"$tmp/table" ||
	fail "calibrate: $(cat "$tmp/table")"
test ! -s "$tmp/out" || fail 'something on standard output besides -o'
plausible "$tmp/cpu.target"
for what in contractions attention streams launch; do
	grep -q "^$what  *kept " "$tmp/table" || fail "no table of $what"
done
grep -q '^  fp32 256x256x256 ' "$tmp/table" || fail 'no fp32 256x256x256'
grep -q '^  bf16 256x256x256 ' "$tmp/table" || fail 'no bf16 256x256x256'
"$LLMC" target "$tmp/cpu.target" >"$tmp/read" || fail 'it does not read back'
grep -q '^  units = [1-9]' "$tmp/read" || fail 'no units'
"$LLMC" --emit=cost --target "$tmp/cpu.target" --pin microbatch=1 \
	"${top_srcdir:?}/examples/tiny-dense.llm" >"$tmp/cost" ||
	fail 'no model can be priced on it'
grep -q '^step ' "$tmp/cost" || fail 'no time of a step'

# JSON has the same points, on standard error too.
"$LLMC" calibrate --quick --json >"$tmp/cpu.target" 2>"$tmp/json" || exit 1
plausible "$tmp/cpu.target"
grep -q '"group": "contractions", "shape": "fp32 256x256x256", "us": ' \
	"$tmp/json" || fail 'no such point in the JSON'
if command -v python3 >/dev/null; then
	python3 -m json.tool "$tmp/json" >/dev/null || fail 'this is no JSON'
fi

# Bad usage is told apart from bad luck.
"$LLMC" calibrate file 2>"$tmp/err"
test $? -eq 2 || fail 'a file is no input of calibrate'
"$LLMC" calibrate --device=cdua 2>"$tmp/err"
test $? -eq 2 || fail 'cdua is no device'
grep -q 'did you mean `cuda`' "$tmp/err" || fail "no hint: $(cat "$tmp/err")"

# A sanitizer in llmc and none in the fake do not go together.
fake()
{
	mkdir -p "$tmp/lib"
	${CC:-cc} -shared -fPIC -o "$tmp/lib/libcuda.so.1" \
		"$top_srcdir/tests/fake-cuda.c" || return 1
	cp "$tmp/lib/libcuda.so.1" "$tmp/lib/libcublas.so.13"
	cp "$tmp/lib/libcuda.so.1" "$tmp/lib/libnccl.so.2"
}
fake || { echo 'no shared object can be built'; exit 0; }

# cuda NAME [VARIABLE=VALUE..]: one run on that machine.
cuda()
{
	name=$1
	shift
	env LD_LIBRARY_PATH="$tmp/lib" "$@" "$LLMC" calibrate --quick \
		--device=cuda -o "$tmp/$name.target" 2>"$tmp/$name.err"
}

cuda one FAKE_CUDA_DEVICES=1 || fail "one device: $(cat "$tmp/one.err")"
cuda four FAKE_CUDA_DEVICES=4 || fail "four devices: $(cat "$tmp/four.err")"
for name in one four; do
	plausible "$tmp/$name.target"
	"$LLMC" target "$tmp/$name.target" >/dev/null || fail "$name: no target"
	want=$top_srcdir/tests/data/calibrate-$name
	if test "${UPDATE:-}"; then
		cp "$tmp/$name.target" "$want.target"
		cp "$tmp/$name.err" "$want.txt"
	fi
	diff -u "$want.target" "$tmp/$name.target" || fail "$name: the target"
	diff -u "$want.txt" "$tmp/$name.err" || fail "$name: the table"
done

# Wrong products are not timed, and nothing is written.
cuda wrong FAKE_CUDA_WRONG=1 && fail 'wrong products are believed'
grep -q 'cublasGemmEx computes .* wrong' "$tmp/wrong.err" ||
	fail "wrong: $(cat "$tmp/wrong.err")"
test ! -e "$tmp/wrong.target" || fail 'a target of wrong products'

# What is missing has a name.
cuda none FAKE_CUDA_DEVICES=0 && fail 'measured no device'
grep -q 'there is no CUDA device' "$tmp/none.err" || fail 'no device: no name'
printf 'int cuInit(unsigned f) { return (int)f; }\n' >"$tmp/old.c"
${CC:-cc} -shared -fPIC -o "$tmp/lib/libcuda.so.1" "$tmp/old.c" || exit 1
cuda old && fail 'measured with an old driver'
grep -q 'libcuda.so.1 has no cuGetErrorString: it is too old' \
	"$tmp/old.err" || fail "old: $(cat "$tmp/old.err")"
printf 'no library\n' >"$tmp/lib/libcuda.so.1"
cuda missing && fail 'measured without a driver'
grep -q "libcuda.so.1 is missing: it comes with NVIDIA's driver" \
	"$tmp/missing.err" || fail "missing: $(cat "$tmp/missing.err")"
test ! -e "$tmp/missing.target" || fail 'a target of no machine'
