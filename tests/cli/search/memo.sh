#!/bin/sh
# Nothing but time hangs on the memo: with it off, every output is the same,
# byte by byte.
. "${top_srcdir:?}/tests/lib.sh"

# same OPTIONS..: one of three on each day; false if it is not today's
same()
{
	today 3 || return
	"$LLMC" "$@" >with 2>with.err
	status=$?
	"$LLMC" --no-memo "$@" >out 2>err
	[ $? -eq $status ] || bad "$*: another exit status without a memo"
	cmp with out && cmp with.err err || bad "$*: not the same"
}

for model in tiny-dense tiny-moe gpt2-124m llama-3-8b; do
	same --target h100x8 --top=5 "$examples/$model.llm"
done
same --target a100x8x8 --top=5 "$examples/gpt2-124m.llm"
same --target h100x8x2 --pin ep=8 --emit=plan "$examples/mixtral-8x7b.llm"
same --target h100x8 --emit=cost "$examples/llama-2-7b.llm"
same --target h100x8 --emit=arena "$examples/llama-2-7b.llm"
same --target h100x8 --emit=kernels "$examples/tiny-moe.llm"
same --target h100x8x2 --explain=search "$examples/llama-2-7b.llm"
same --target h100x8 --why-not=tp=8 "$examples/llama-2-7b.llm"
same --target h100x8 --print-changed "$examples/tiny-dense.llm"
same --target cpux4 --emit=llvm --cpu=x86-64-v3 "$examples/tiny-dense.llm"
! same --target h100x4 --pin offload=none "$examples/llama-2-70b.llm" ||
	[ $status -eq 1 ] || bad 'llama-2-70b fits four devices'

# One block of two has a name for each layer, so that its weights may lie on the
# host; the kernels of both are the same.
cat >named.llm <<'END'
model named {
  dim one = 1, hidden = 1024, ffn = 4096, vocab = 512, seq = 128;
  dtype bf16;
  layer block(x[batch, seq, hidden]) {
    return x + linear(silu(linear(x -> ffn) @ "up") -> hidden) @ "down";
  }
  x = embed(tokens, vocab -> hidden) @ "embed";
  repeat one as i { x = block(x) @ "layers.{i}"; }
  repeat one as j { x = block(x) @ "last"; }
  logits = linear(x -> vocab) @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 8; optimizer = adamw(lr = 0.001); }
END
same --target h100x8 --emit=plans --top=20 --pin offload=parameters named.llm

# ---- what it finds

run --target h100x8 --stats -o /dev/null --emit=plan "$examples/llama-3-8b.llm"
for what in 'elimination orders' 'kernels for any size' 'prices of regions'; do
	grep -Eq "^# +[1-9][0-9]*  memo: $what, of [0-9]+ looked for\$" err ||
		bad "no $what are found"
done
run --no-memo --target h100x8 --stats -o /dev/null --emit=plan \
	"$examples/llama-3-8b.llm"
grep -q memo: err && bad '--no-memo keeps something'

exit $failed
