#!/bin/sh
# Every accelerator that llmc knows, and the least that a file may say, is
# planned for: a type without a rate of its own is priced at another's.
. "${top_srcdir:?}/tests/lib.sh"
ulimit -t 120

# planned TARGET MODEL..: a step of some time
planned()
{
	target=$1
	shift
	run -w --emit=cost --target "$target" "$@"
	grep -q '^step  *[0-9.]* ms' out || bad "$target: no step"
}

for file in "$top_srcdir"/targets/*.target; do
	name=${file##*/}
	planned "${name%.target}" "$examples/tiny-dense.llm"
done

# Neither an arch nor a vendor, and one rate.
for rate in tf32 bf16 fp16; do
	"$LLMC" target h100 | sed '/arch =\|vendor =\|fp32 =\|tf32 =\|bf16 =/d
		/fp16 =\|fp8 =\|int8 =\|link =/d
		s/^target.*/&'" $rate = 500;/" >bare.target
	planned ./bare.target "$examples/tiny-dense.llm"
	sed 's/f32/bf16/' "$examples/tiny-dense.llm" >narrow.llm
	planned ./bare.target narrow.llm
done
sed 's/fp16 = 500/int8 = 500/' bare.target >whole.target
refused './whole.target:1:1: error: ' --target ./whole.target \
	"$examples/tiny-dense.llm"
grep -q 'error: .* does not say: a matrix rate' err || bad 'no rate'

# A pipeline of two nodes sends between them, if its neighbours are in one node,
# too: it waits for a slow network.
waits()
{
	run --target "$1" "$examples/llama-2-7b.llm" --pin \
		pp=4,tp=2,dp=1,microbatch=1,schedule=1f1b,recompute=full
	awk '/communication: pipeline/ { print int($3) }' out
}
quick=$(waits h100x4x2@ib800)
slow=$(waits h100x4x2@eth10)
test "$slow" -gt $((quick + 1000)) || bad "waits $slow ms, and $quick"

# What only a machine would ask for ends soon, and needs no memory.
model()
{
	cat <<-END
	model m {
	  dim hidden = 4, vocab = 4, seq = 4;
	  layer f(x[batch, seq, hidden]) { return x + silu(x * weight(hidden) @ "w"); }
	  x = embed(tokens, vocab -> hidden) @ "e";
	  repeat $1 as i { x = f(x) @ "h.{i}"; }
	  loss = cross_entropy(linear(x -> vocab) @ "o", labels);
	}
	train { batch = $2; optimizer = sgd(lr = 1); }
	END
}
model 5000 4 >deep.llm
model 2 1e9 >many.llm
(
	# a sanitizer's shadow alone is larger
	ulimit -S -v 4000000
	"$LLMC" --version >version 2>&1 || ulimit -S -v unlimited
	planned h100x8 deep.llm
	planned h100x8 many.llm
	exit $failed
) || bad 'with so much memory'

# Pins that the search has to fit itself to.
model 2 3 | sed 's/f(x\[.*/f(x[batch, seq, hidden]) { q = linear(x -> heads, hd) @ "q"; return x + linear(attention(q, q, q, causal) -> hidden) @ "p"; }/
	s/seq = 4/seq = 3, heads = 2, hd = 2/' >short.llm
planned cpux3 --pin cp=3 short.llm
refused '--pin:1:1: error: `offload` is optimizer, and the target has no link' \
	--target cpux2 --pin offload=optimizer short.llm

# The model's fault, not the target's: said as without a search.
"$LLMC" -w --emit=ir "$examples/tiny-dense.llm" |
	sed '/^set train.optimizer/d' >none.ir
refused 'adamw, sgd, lion, adafactor or muon, and none is' --target h100x4 none.ir
grep -q '^none.ir:[0-9]*:[0-9]*: error: ' err || bad 'no place'
exit $failed
