#!/bin/sh
# --autotune on the driver of the tests, whose times are planted: the fastest
# tile gets into the plan, the plan gives that code without a GPU, and what is
# missing, or fails, is said in a line.
. "${top_srcdir:?}/tests/lib.sh"
need llvm nvrtc linker compiler
fake_gpus || fail 'no driver, or no NCCL'
export FAKE_ARCH=80 FAKE_TIMES=
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:handle_segv=0"
unset LLMC_NVRTC

cat >one.llm <<'END'
model one {
  dim hidden = 32, vocab = 64, seq = 32;
  dtype f32;

  x = embed(tokens, vocab -> hidden)  @ "emb";
  logits = linear(x -> vocab)         @ "head";
  loss = cross_entropy(logits, labels);
}

train {
  batch = 2;
  optimizer = adamw(lr = 1e-3);
}
END
echo 'plan { }' >base.llp

# tune FOLDER PLAN [arguments]
tune()
{
	folder=$1
	plan=$2
	shift 2
	"$LLMC" -w --draft --no-whole --arch sm_80 --target h100x1 --plan "$plan" \
		-o "$folder" "$@" one.llm >out 2>err
}

# untuned TEXT [variables] [-- arguments]: exit 1, one line, no folder
untuned()
{
	want=$1
	shift
	vars=
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		vars="$vars $1"
		shift
	done
	[ $# -eq 0 ] || shift
	# shellcheck disable=SC2086 # words
	env $vars "$LLMC" -w --draft --no-whole --arch sm_80 --target h100x1 \
		--plan base.llp -o none --autotune "$@" one.llm >out 2>err
	status=$?
	[ $status -eq 1 ] || fail "exit $status, not 1: $want"
	grep -qF -e "$want" err || fail "nobody says: $want"
	[ "$(wc -l <err)" -eq 1 ] || fail "more than a line: $want"
	! grep -q leaks err || fail "leaks: $want"
	[ ! -e none ] || fail "something was written: $want"
}

# ---- the fastest gets into the plan ----

first='f32 1x64x64x32 kk to f32: '
FAKE_LOG=log FAKE_TIMES='100 60 50 70' tune third base.llp --autotune \
	--explain=tiles || fail 'a run with a GPU'
grep -qF "\"${first}m=128 n=64 k=16 stages=3 splits=1 warps=8\"" \
	third/plan.llp || fail 'the third tile is not in the plan'
grep -q 'm=128 n=64 .* 50000.0 chosen$' out || fail 'no table of what it was'
[ "$(grep -c "the table's chosen$" out)" -eq 2 ] || fail 'the two others'
grep -q '^llmc: note: 3 choices of tiles measured on Fake 0: 1 replaces' err ||
	fail 'nobody says how much there was to gain'
grep -q 'leaks 0' log || fail "the driver: $(cat log)"
grep -q 'tiles of 128 x 64, 16 of k in 3 stages' third/kernels/*.cu ||
	fail 'it is not in the code'

# Copies take a second each on this driver: none is between the events.
grep -q ' 100000.0 the table' out || fail 'more was timed than kernels'

# Two in a hundred may be chance.
FAKE_TIMES='100 98.5 99 70 100 97.5' tune second base.llp --autotune \
	--explain=tiles || fail 'a second run'
[ "$(grep -c "chosen$" out)" -eq 3 ] || fail 'not one for each'
grep -q 'm=128 n=128 .* 70000.0 chosen$' out || fail 'not the fourth'
grep -q ' 97500.0 chosen$' out || fail '2.5 in a hundred are no chance'
FAKE_TIMES='100 98.5 99 98.1' tune own base.llp --autotune \
	--explain=tiles || fail 'a third run'
[ "$(grep -c "the table's chosen$" out)" -eq 3 ] || fail 'chance is taken'

# ---- and gives that code without a GPU ----

LLMC_LIBCUDA=/nonexistent tune again third/plan.llp || fail 'read back'
same_folders third again || exit
LLMC_LIBCUDA=/nonexistent tune plain base.llp || fail plain
cmp -s plain/rank third/rank && fail 'rows change nothing'
# measured anew, whatever the plan says
FAKE_TIMES='' tune anew third/plan.llp --autotune || fail anew
same_folders own anew || exit

sed 's/n=64 k=16 stages=3 splits=1 warps=8/n=65 k=16/' third/plan.llp >bad.llp
tune none bad.llp && fail 'a tile that there is not'
grep -qF "bad.llp:20:13: error: \`f32 1x64x64x32 kk to f32\` has no tile \
\`m=128 n=65 k=16\` on sm_80: legal are \`m=32 n=32 k=16 stages=3 splits=1 \
warps=2\`, \`m=64" err || fail 'it is not refused as it should be'
sed 's/1x64x64x32/1x64x64x33/' third/plan.llp >bad.llp
tune none bad.llp && fail 'a contraction that there is not'
grep -qF "bad.llp:20:13: error: no kernel of this plan is \`f32 \
1x64x64x33 kk to f32\` (did you mean \`f32 1x64x64x32 kk to f32\`?): there \
are \`f32 1x64x64x32 kk to f32\`, " err ||
	fail 'it is not refused as it should be'
[ ! -e none ] || fail 'a plan that was refused is there'

# ---- attention: each of a kernel's steps by itself ----

cp one.llm dots.llm
cat >one.llm <<'END'
model one {
  dim hidden = 32, heads = 2, hd = 16, vocab = 64, seq = 32;
  dtype f32;

  x = embed(tokens, vocab -> hidden)         @ "emb";
  q = linear(x -> heads, hd)                 @ "q";
  a = attention(q, q, q, causal);
  logits = linear(a -> vocab)                @ "head";
  loss = cross_entropy(logits, labels);
}

train {
  batch = 2;
  optimizer = adamw(lr = 1e-3);
}
END
FAKE_TIMES='' tune attention base.llp --autotune --explain=tiles ||
	fail attention
for step in forward 'keys+values' queries; do
	grep -q "^    \"attention $step f32 2x2x32x32x16 causal: m=64 n=64 k=16 " \
		attention/plan.llp || fail "no tile of attention's $step"
	grep -q "^attention $step f32 2x2x32x32x16 causal: 1 kernel$" out ||
		fail "attention's $step was not measured"
done
sed '/keys+values/s/m=64 n=64 k=16/m=32 n=16 k=16/;/keys+values/s/warps=4/warps=2/;/keys+values/s/stages=2/stages=1/' \
	attention/plan.llp >other.llp
LLMC_LIBCUDA=/nonexistent tune other other.llp || fail 'another tile'
grep -q 'blocks of 32 keys x 16' other/kernels/*.cu ||
	fail 'it is not in the code'
grep -q 'blocks of 64 queries x 64' other/kernels/*.cu ||
	fail 'other steps have it too'
mv dots.llm one.llm

# ---- what is missing ----

untuned '--autotune: no GPU can be used: /nonexistent is missing, which comes' \
	LLMC_LIBCUDA=/nonexistent
untuned 'kernels are for sm_80, and the GPU here is an sm_90, Fake 0' \
	FAKE_ARCH=90
untuned 'no CUDA-capable device is detected (100)' FAKE_DEVICES=0
untuned '--autotune: kernels cannot be compiled here: ' LLMC_NVRTC=/none.so
untuned 'out of memory' FAKE_MEMORY=100000
refused '--autotune needs an output with code: -o FOLDER' --autotune \
	--target h100x1 one.llm
for emit in plan cost memory kernels ranks arena; do
	refused "or --emit=cuda; found --emit=$emit" --autotune \
		--target h100x1 --emit=$emit one.llm
done

# Neither the text of kernels nor measuring them takes LLVM; a program does.
LLMC_LIBLLVM=/none.so refused 'LLMC_LIBLLVM names another file' \
	-o none --target h100x1 one.llm
mkdir text
for none in '' /none.so; do
	LLMC_LIBLLVM=$none FAKE_TIMES='100 60 50 70' "$LLMC" -w --arch sm_80 \
		--target h100x1 --autotune --emit=cuda one.llm \
		>"text$none.cu" 2>err || fail "--emit=cuda, LLVM: $none"
	LLMC_LIBLLVM=$none "$LLMC" -w --target h100x8 --emit=cuda \
		"$top_srcdir/examples/llama-3-8b.llm" >>"text$none.cu" 2>err ||
		fail "the text of a model, LLVM: $none"
done
cmp text.cu text/none.so.cu || fail 'without LLVM it is another text'
grep -q 'tiles of 128 x 64, 16 of k in 3 stages' text.cu ||
	fail 'the tile that was measured is not in the text'
refused '--autotune needs a GPU as target' --autotune --target cpux1 \
	-o none one.llm
refused '--explain=tiles needs --autotune' --explain=tiles \
	--target h100x1 one.llm

# Whatever call fails, some of them; all if there is time.
each=131
[ "${SLOW_TESTS-}" != 1 ] || each=1
n=1
while [ $n -lt 860 ]; do
	untuned '--autotune: ' FAKE_FAIL=$n
	n=$((n < 30 ? n + each / 40 + 1 : n + each))
done
exit $failed
