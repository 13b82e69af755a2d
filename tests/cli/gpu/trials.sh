#!/bin/sh
# What --trials writes is measured and checked where there is a driver alone:
# on the driver of the tests, whose kernels the emulator runs.  Contractions are
# held to float64 of the host; what is wrong is seen, and what is broken is
# refused.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker compiler
trials=$build/tests/gpu/trials
[ -x "$trials" ] || skip 'no tests/gpu/trials'
fake_gpus && fake_nvrtc || fail 'no driver, NCCL or NVRTC'
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:handle_segv=0"

cat >one.llm <<'END'
model one {
  dim hidden = 64, heads = 2, hd = 32, vocab = 77, seq = 32;
  dtype bf16;

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
"$LLMC" -w --draft --no-whole --target h100x1 --pin pp=1 --trials -o plan one.llm \
	>out 2>err || fail 'no trials'

# alone arguments: with nothing of this environment but what is meant
alone()
{
	env -i PATH=/usr/bin:/bin LLMC_LIBCUDA="$LLMC_LIBCUDA" \
		LLMC_LINKER="$LLMC_LINKER" \
		XDG_CACHE_HOME="$tmp/cache" ASAN_OPTIONS="$ASAN_OPTIONS" \
		FAKE_LOG="$tmp/log" ${times+FAKE_TIMES="$times"} \
		"$trials" "$@" >out 2>err
}

# ---- right ----

alone plan/trials 'bf16 1x64x64x64 kk to bf16' 1 ||
	fail 'a contraction by wgmma is wrong'
grep -q "compared [1-9][0-9]* elements with the host's float64" out ||
	fail 'the host did not look'
grep -q '^1 kernels measured, 1 of them compared, 0 candidates wrong' out ||
	fail 'not one kernel'
grep -q 'leaks 0' log || fail "the driver: $(cat log)"
# rows of 77 scores lie 80 apart
grep -q '"row": 77, "pitch": 80, "written": true' plan/trials/trials.json ||
	fail 'no rows that lie apart'
alone plan/trials 'bf16 1x64x77x64 kk to bf16' 1 ||
	fail 'scores whose rows lie apart are wrong'
grep -q "with the host's float64" out || fail 'the host did not look at scores'
alone plan/trials 'bf16 1x64x64x64 kk to bf16' 1 || fail 'it is wrong the second time'
rows=$(grep -c ' m=[0-9]* n=' out)
[ "$rows" -ge 4 ] || fail "only $rows candidates"
# sanitizers see the program that measures by one kernel as by four
if have time; then
	alone plan/trials ' accumulate' 1 || fail 'a sum in bf16 is wrong'
	grep -q "with the host's float64" out || fail 'the host did not add'
	alone plan/trials attention 1 || fail 'attention is wrong'
	grep -q "elements with the first candidate's" out || fail 'nothing is compared'
	alone plan/trials attention-backward 1 || fail 'gradients are wrong'
	grep -q '^2 kernels measured, 2 of them compared, 0 ' out ||
		fail 'not the two kernels of gradients'
	grep -q '^attention forward' out && fail 'forward is a gradient'
	alone plan/trials maps 1 || fail 'maps are wrong'
	grep -q ' no choice$' out || fail 'no map'
	! grep -q 'm=[0-9]' out || fail 'what has a choice is no map'
fi

# ---- wrong: nothing is run, an operand is another, a product is ----

times='9 9 9 5'
alone plan/trials 'kk to bf16' 1 &&
	fail 'what is not run is right'
unset times
grep -q 'WRONG: 256 of 256 elements; element 0 of buffer 2 is ' out ||
	fail 'nobody says what is wrong'
wrong()
{
	rm -rf bad
	cp -r plan/trials bad
	sed "$1" plan/trials/trials.json >bad/trials.json
	! cmp -s plan/trials/trials.json bad/trials.json ||
		fail "nothing is changed: $1"
	alone bad 'kk to bf16' 1 && fail "it is right: $1"
	grep -q "$2" out || grep -q "$2" err || fail "nobody says: $2"
}
wrong '/64x64x64 kk to bf16/,/\]}\]/s/"operands": \[0, 1, 2\]/"operands": [1, 0, 2]/' WRONG
rm -rf bad
cp -r plan/trials bad
sed -i 's/x + 6, y + 6, 1/x + 6, y + 4, 1/' bad/*.cu
alone bad 'kk to bf16' 1 && fail 'a product of other elements is right'
grep -q 'WRONG: .* is right: m=' out || fail 'nobody says which is wrong'

# of a type whose sums the host does not know to the last bit
sed 's/"elem": 2, "written": true/"elem": 5, "written": true/' \
	plan/trials/trials.json >bad/trials.json
cp plan/trials/*.cu bad
alone bad 'kk to bf16' 1 || fail 'candidates differ'
grep -q "elements with the first candidate's" out || fail 'the host looked'

# ---- broken ----

wrong 's/"blocks": \[[0-9]*/&x/' 'trials.json.*found .x., expected'
wrong 's/"operands": \[0/"operands": [77/' 'operands, maps and a source that'
wrong 's/"operand": 0/"operand": 9/' 'operands, maps and a source that'
wrong 's/"threads": [1-9]*/"threads": 0/' 'a step needs a function'
wrong 's/"k": \[/"k": [1, /' 'three numbers for each run'
wrong 's/"k": \[[0-9]*/"k": [1000000/' 'lies outside of its buffer'
wrong 's/"buffers": \[{"bytes": [0-9]*/"buffers": [{"bytes": 64/' \
	'maps inside of their buffers'
wrong 's/"buffers": \[{"bytes": [0-9]*/"buffers": [{"bytes": 9000000000000000000/' \
	'are more than there is memory'
wrong 's/"pitch": 80/"pitch": 76/' 'rows of a buffer that are as far apart'
wrong 's/"pitch": 80/"pitch": 77/' WRONG
wrong 's/"what"/"who"/' "there is no 'who' here"
wrong 's/"sources": \["[^"]*/&x/' 'x.cubin cannot be read'
wrong 's/"texts": \["[^"]*/&x/' 'x cannot be read'
wrong 's/^}/, "sources": ["0-x"]}/' "'sources' stands here twice"
wrong 's/"k": \[[0-9]*/"k": [4611686018427387904, 8, 8, 8/' \
	'more elements than a buffer has'
wrong 's/sm_90a/sm_80/' 'kernels are for sm_80, and the GPU here is an sm_90'
alone nowhere && fail 'a folder that is not there'
grep -q 'nowhere/trials.json cannot be read' err || fail 'nobody says which'
LLMC_LIBCUDA=/none.so alone plan/trials && fail 'no driver'
grep -q '^trials: no GPU can be used: /none.so is missing' err ||
	fail 'nobody says that there is no driver'
alone plan/trials 'no such kernel' 1 && fail 'nothing was measured'

# ---- the times that it gives are what the plan takes ----

if have time; then
	attention=$(sed -n '/"attention forward/,$s/.*"tile": .* "source": \([0-9]*\),.*/\1/p' \
		plan/trials/trials.json | sed 1q)
	times=$(yes 9 | sed "$((attention + 1))q" | tr '\n' ' ')5
	alone plan/trials 'attention forward' 1
	sed -n '/^plan {/,/^}/p' out >row.llp
	row=$(sed -n 's/^  tiles = ("\(.*\)");$/\1/p' row.llp)
	[ -n "$row" ] || fail 'no row for the plan'
	"$LLMC" -w --draft --no-whole --target h100x1 --plan row.llp -o again one.llm \
		>out 2>err || fail "the plan does not take it: $row"
	grep -qF "$row" again/plan.llp || fail 'the plan has it not'
fi

# ---- options ----

refused '--trials writes a folder inside of' --trials --target h100x1 \
	--emit=cuda one.llm
refused '--trials needs a GPU as target' --trials --target cpux1 -o none \
	one.llm
refused '--trials needs --target' --trials -o none one.llm
LLMC_NVRTC=/none.so refused '--trials: kernels cannot be compiled here' \
	--trials --target h100x1 -o none one.llm
exit $failed
