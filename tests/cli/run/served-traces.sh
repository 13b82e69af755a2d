#!/bin/sh
# A program that serves computes a position with the same bits in a step of any
# size, beside any others, and with steps in flight in all stages: 300 drawn
# traces of requests on one rank, on four, with weights and a cache in 8 bits, on
# three stages, with experts on two of four, with ALiBi, in bf16, and with a cache
# of latents.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
work='prompt=8,output=4,context=16,tokens=72,rows=16,keys=1024,slots=2048'

# The program as it is linked, with the traces in place of `generate`.
generate_is serve-traces.c

# traces FLIGHTS MODEL OPTION..: one of four on each day: so many steps are in
# flight
traces()
{
	flights=$1 model=$2
	shift 2
	today 4 || return
	saved "$model"
	run --serve --draft "$@" --workload $work -o served "$model" || exit
	./served/rank generate --local --checkpoint ck --prompt x >out 2>err ||
		{ grep -q 'this CPU' err && return; bad "$*: $(cat err)"; }
	grep -q '^steps: [1-9].* [1-9][0-9]* of up to 8, [1-9].* [1-9][0-9]* of more' out ||
		bad "$*: $(cat out)"
	grep -q '^weights in panels: [1-9]' out || bad "$*: $(cat out)"
	grep -qx "steps in flight: $flights" out || bad "$*: $(cat out)"
}

# saved MODEL: weights as a new run draws them
saved()
{
	[ "$1" != "${weights-}" ] || return 0
	weights=$1
	rm -rf ck
	LLMC_LINKER='' run --target cpux1 --draft --pin microbatch=1 -o whole \
		"$1" || exit
	./whole/rank train --data draw --steps 1 --checkpoint ck >out 2>err ||
		fail "training: $1"
}

declared=$work
traces 1 "$examples/tiny-dense.llm" --target cpux1
traces 2 "$examples/tiny-dense.llm" --target cpux4 --pin tp=2,pp=2
work=$declared,weights=int8
traces 1 "$examples/tiny-dense.llm" --target cpux1
work=$declared,cache=f8e4m3
traces 1 "$examples/tiny-dense.llm" --target cpux2 --pin tp=2
work=$declared
sed 's/layers = 2/layers = 3/' "$examples/tiny-dense.llm" >three.llm
traces 3 three.llm --target cpux3 --pin pp=3
sed 's/attention(\(.*\)causal)/attention(\1causal, alibi = 8)/' \
	"$examples/tiny-dense.llm" >alibi.llm
cmp -s alibi.llm "$examples/tiny-dense.llm" && bad 'it has no ALiBi'
traces 1 alibi.llm --target cpux2 --pin tp=2
sed 's/dtype f32/dtype bf16/' "$examples/tiny-dense.llm" >narrow.llm
traces 1 narrow.llm --target cpux1 --cpu native
traces 1 "$examples/tiny-moe.llm" --target cpux4 --pin tp=2,ep=2
cat >latents.llm <<'END'
model latents {
  dim layers = 2, hidden = 64, heads = 4, nope = 16, rot = 8, vd = 16;
  dim qk = nope + rot, kvo = nope + vd, rank = 24, kvr = rank + rot;
  dim ffn = 96, vocab = 256, seq = 16;
  layer block(x[batch, seq, hidden]) {
    n = rmsnorm(x) @ "n1";
    qn, qr = split(linear(n -> heads, qk) @ "q", qk -> nope, rot);
    l, r = split(linear(n -> kvr) @ "kva", kvr -> rank, rot);
    l = cache(rmsnorm(l) @ "ln");
    r = cache(rope(r));
    kn, v = split(linear(l -> heads, kvo) @ "kvb", kvo -> nope, vd);
    a = attention(concat(qn, rope(qr) -> qk), concat(kn, r -> qk), v, causal,
                  uncached);
    x = x + linear(a -> hidden) @ "o";
    m = rmsnorm(x) @ "n2";
    return x + linear(silu(linear(m -> ffn) @ "up") -> hidden) @ "down";
  }
  x = embed(tokens, vocab -> hidden) @ "wte";
  repeat layers as i { x = block(x) @ "h.{i}"; }
  x = rmsnorm(x) @ "nf";
  logits = linear(x -> vocab) @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 4; optimizer = adamw(lr = 1e-3); }
END
traces 1 latents.llm --target cpux2 --pin tp=2
exit $failed
