#!/bin/sh
# Every program of bench/ is built and does its least, so that none rots until
# somebody needs a figure.  Figures are never looked at.  bench/gpu/run is tried
# by gpu-run.sh.  What a bench compares with may be missing, it says so then.
. "${top_srcdir:?}/tests/lib.sh"
need llvm compiler
# It is llmc's own speed that is measured, so nobody links benches otherwise.
! grep -q __asan_init "$build/runtime/librt_llmc.a" ||
	skip 'benches of a build with sanitizers'
bench=$top_srcdir/bench
# A bench that is added is tried here too, in one of the lines below.
for file in "$bench"/*; do
	if [ -f "$file" ] && [ -x "$file" ]; then
		grep -q "prints .* ${file##*/} " "$tests/cli/command/benches.sh" ||
			bad "bench/${file##*/} is not tried"
	fi
done
export BENCH_SMOKE=1

# prints WORDS BENCH ARGUMENTS..: one of three on each day: it succeeds, and
# WORDS begin a line of it.
prints()
{
	today 3 || return
	wanted=$1
	shift
	"$bench/$@" >out 2>err || bad "bench/$*: exit status $?" || return
	grep -q "^$wanted" out || bad "bench/$*: no line begins with $wanted"
}

prints '64x64x64 kk f32' cpu-gemm "$build" -n 1 -t 1 64 64 64 kk
prints '[0-9]* tokens spelled out' serve/guide "$build" \
	"$top_srcdir/tests/data/tokenizers/gpt2.json"
command -v python3 >/dev/null || skip 'no python3 for the other benches'
prints 'llmc  ' tokenize "$LLMC"
prints ' *2 *4096 ' comm --ranks 2 --rounds 1 "$build"
prints 'tiny-dense *h100x8 ' plan --model tiny-dense --target h100x8 "$LLMC"
if have linker; then
	prints 'steps wait for a save  *[0-9]' checkpoint "$LLMC" "$tmp"
	prints 'llmc f32 ' cpu --dtype f32 --rounds 1 --steps 4 "$LLMC"
	prints 'llmc  *bf16 ' serve/beside "$build"
	prints 'llama  *16  *2 ' serve/predicted --rounds 1 --model llama \
		"$LLMC"
	if have http; then
		prints 'the server keeps ' serve/loaded "$build"
	fi
	prints 'gpt2 *2 dp=2 .*[0-9]$' predict --steps 4 "$LLMC"
fi

# Where there is no numpy, one that multiplies nothing has its place.
python3 -c 'import numpy' 2>/dev/null || {
	mkdir numpy && cat >numpy/__init__.py <<-'END'
	__version__ = "stand-in"
	float32 = None


	class Array:
	    def astype(self, dtype):
	        return self

	    def __mul__(self, factor):
	        return self

	    def __sub__(self, other):
	        return self


	class random:
	    rand = staticmethod(lambda *dims: Array())


	def empty(dims, dtype):
	    return Array()


	def matmul(a, b, out):
	    pass
	END
	export PYTHONPATH="$tmp"
}
prints 'ratio to the peer ' calibrate "$LLMC"

if have nvrtc; then
	cat >tiny.llm <<-'END'
	model tiny {
	  dim seq = 8, vocab = 16, hidden = 16;
	  dtype bf16;
	  x = embed(tokens, vocab -> hidden);
	  logits = linear(x -> vocab);
	  loss = cross_entropy(logits, labels);
	}
	train { batch = 8; optimizer = sgd(lr = 1e-2); }
	END
	CUDA_MODELS=tiny.llm CUDA_TARGETS=h100x1 \
		prints 'tiny  *h100x1 ' cuda-build "$build"
fi
exit $failed
