#!/bin/sh
# Tiles that spill, on the NVRTC of the tests, where it is planted which do: the
# next best takes their place, the same one from the cache, without it, and
# where the plan is finished; what a plan names stays, and is warned of.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker compiler
fake_nvrtc || fail 'no NVRTC'
export FAKE_LOG="$tmp/log" LLMC_CACHE FAKE_SPILLS

cat >small.llm <<'END'
model small {
  dim hidden = 64, ffn = 160, vocab = 256, seq = 128;
  dtype bf16;
  x = embed(tokens, vocab -> hidden)        @ "embed";
  m = rmsnorm(x)                            @ "norm";
  x = x + linear(silu(linear(m -> ffn) @ "up") -> hidden) @ "down";
  logits = linear(x -> vocab)               @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 4; optimizer = adamw(lr = 1e-3); }
END
cp small.llm model.llm

# plan FOLDER WHAT-SPILLS ARGUMENTS..: with a cache of its own
plan()
{
	folder=$1
	FAKE_SPILLS=$2
	shift 2
	LLMC_CACHE=$tmp/$folder.cache
	: >log
	run --draft --target h100x1 -Wno-all -Wslow-kernel "$@" -o "$folder" model.llm
}

# compiled TIMES: no source was more often
compiled()
{
	most=$(sort log | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')
	[ "${most:-0}" -eq "$1" ] ||
		bad "a source was compiled ${most:-0} times, not $1"
}

# tiles FOLDER: of its contractions
tiles()
{
	grep -ho 'tiles of [0-9]* x [0-9]*' "$1"/kernels/*.cu | sort | uniq
}

# spills FOLDER: how many functions do
spills()
{
	grep -o '"spill_bytes": [1-9]' "$1"/plan.json | wc -l
}

# ---- none of them ----

plan none ''
compiled 1
grep -q spill err && bad 'a warning of nothing'
[ "$(tiles none)" = 'tiles of 64 x 64' ] || bad "first choices: $(tiles none)"

# ---- the next ----

plan next 'tiles of 64 x 64' -Werror=slow-kernel
compiled 2
[ "$(spills next)" -eq 0 ] || bad "$(spills next) functions spill"
tiles next | grep -q '64 x 64' && bad 'a tile that spills is used'
[ "$(tiles next | wc -l)" -gt 0 ] || bad 'no tiles'
cmp -s next/plan.llp none/plan.llp || bad 'the plan is another one'
# again, from the cache, and without one: what does not change is not made
# twice
cp -R next kept
plan next 'tiles of 64 x 64'
[ -s log ] && bad 'what is in the cache is compiled'
same_folders kept next
plan next 'tiles of 64 x 64' --no-cache
compiled 2
same_folders kept next
# and the next after that
plan third 'tiles of 64 x 64;tiles of 64 x 128;tiles of 128 x 64'
[ "$(spills third)" -eq 0 ] || bad "third: $(spills third) functions spill"
tiles third | grep -q '64 x 64\|64 x 128\|128 x 64' &&
	bad 'a tile that spills is used'

# ---- all of them: the first, and a word about it ----

plan all 'KERNEL(dot'
[ "$(tiles all)" = "$(tiles none)" ] || bad "all spill: $(tiles all)"
diff none/kernels all/kernels | grep -v 'cubin differ' && bad 'other sources'
[ "$(spills all)" -gt 0 ] || bad 'no spills in plan.json'
[ "$(grep -c 'Registers are spilled' err)" -eq "$(spills all)" ] ||
	bad "$(spills all) functions spill, and there are other warnings"
compiled 8

# ---- what a plan names ----

cat >named.llp <<'END'
plan {
  tiles = ("bf16 1x512x160x64 kk bf16 silu: m=64 n=64 k=64 stages=6 splits=1 cluster=1 teams=2");
}
END
plan named 'tiles of 64 x 64' --plan named.llp
[ "$(spills named)" -eq 1 ] || bad "$(spills named) named ones spill"

# ---- a program that serves ----

attention_model served
cp served.llm model.llm
plan served '' --serve --workload tokens=128
grep -q 'blocks of 128 x 64' served/kernels/*.cu || bad 'no such blocks'
plan spilled 'blocks of 128 x 64' --serve --workload tokens=128
[ "$(spills spilled)" -eq 0 ] || bad "$(spills spilled) serve, and spill"
grep -q 'blocks of 128 x 64' spilled/kernels/*.cu && bad 'blocks that spill'
cp small.llm model.llm

# ---- where a plan is finished ----

LLMC_NVRTC=/nonexistent plan later 'tiles of 64 x 64'
[ "$(tiles later)" = "$(tiles none)" ] || bad "unfinished: $(tiles later)"
for spilling in 'tiles of 64 x 64' ''; do
	rm -rf work
	cp -R later work
	rm -f model.llm
	FAKE_SPILLS=$spilling
	LLMC_CACHE=$tmp/work.cache
	rm -rf work.cache
	run finish work
	[ -s out ] && bad 'finish prints'
	cp small.llm model.llm
	same_folders work "$([ "$spilling" ] && echo next || echo none)"
	run finish work
	grep -q 'work is finished' err || bad 'finished, and it says nothing'
done

for file in run 0.read; do
	rm -rf work
	cp -R later work
	echo >>"work/unfinished/$file"
	refused "unfinished/$file was changed since it was written" finish work
done
rm -rf work
cp -R later work
sed -i '/^run/d' work/unfinished/list
refused 'unfinished/list ends too early' finish work

# options, a plan's file, and a model of standard input are kept, too
for given in model.llm -; do
	args="--draft --target a100-sxmx2 -w --no-whole --plan pin.llp"
	echo 'plan { tp = 2; }' >pin.llp
	FAKE_SPILLS='tiles of 64 x 64;tiles of 128 x'
	LLMC_CACHE=$tmp/given.cache
	rm -rf given.cache
	# shellcheck disable=SC2086 # words
	run $args -o at-once "$given" <small.llm
	# shellcheck disable=SC2086 # words
	LLMC_NVRTC=/nonexistent run $args -o later "$given" <small.llm
	mv pin.llp away.llp
	run finish later
	mv away.llp pin.llp
	same_folders at-once later
	[ "$(spills later)" -eq 0 ] || bad "$given: $(spills later) spill"
done
exit $failed
