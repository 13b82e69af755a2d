#!/bin/sh
# Tokens that do not count in the loss: beside the same loss and its gradients
# written out by other ops, and split in every way over ranks.
. "${top_srcdir:?}/tests/lib.sh"

# model LOSS: in m.llm, whose vocabulary is so small that index 3 is common
model()
{
	cat >m.llm <<EOF
model m {
  dim layers = 2, hidden = 16, heads = 2, hd = 8, vocab = 4, seq = 8, one = 1;
  input positions: f32[batch, seq];
  input n: f32[];
  layer block(x[batch, seq, hidden]) {
    q = linear(x -> heads, hd)           @ "q";
    a = attention(rope(q), rope(q), q, causal);
    return x + linear(a -> hidden)       @ "o";
  }
  x = embed(tokens, vocab -> hidden)     @ "embed";
  repeat layers as i { x = block(x)      @ "l.{i}"; }
  logits = linear(x -> vocab)            @ "head";
  c = step(positions - 0.1);
  k = 1 - select(onehot(labels, vocab), vocab, at = 3);
  e = -log(gather(softmax(logits), labels));
  $1
}
train { batch = 4; optimizer = adamw(lr = 1e-3); }
EOF
}

# losses: of two steps, so that the second one depends on the gradients
losses()
{
	"$LLMC" eval --compare --steps 2 -Wno-unused-value "$@" m.llm \
		>out 2>err || bad "eval $*"
	sed -n 's/^step .* loss \([0-9.]*\) .*/\1/p' out
}

# same WRITTEN WORDS: both losses, over two steps, to 1e-9
same()
{
	model "loss = $1;"
	losses --pin dp=2 >a
	model "loss = cross_entropy(logits, labels, $2);"
	losses --pin dp=2 >b
	paste a b | awk '{ d = $1 - $2; if (d * d > 1e-18) { exit 1 } }
		END { if (NR != 2) { exit 1 } }' ||
		bad "$2: $(cat b), written out: $(cat a)"
}

same 'mean(sum(e * k, seq) / sum(k, seq), batch)' 'ignore = 3'
cp b ignored
same 'mean(sum(e * c, seq) / sum(c, seq), batch)' 'c'
same 'mean(sum(e * c * k, seq) / sum(c * k, seq), batch)' 'c, ignore = 3'
cmp -s b ignored && bad 'all tokens count'

model 'loss = sum(e * c, batch, seq) / 12;'
losses --pin dp=2 >a
model 'loss = cross_entropy(logits, labels, c, 12 + 0 * n);'
losses --pin dp=2,microbatch=2 >b
paste a b | awk '{ d = $1 - $2; if (d * d > 1e-18) { exit 1 } }
	END { if (NR != 2) { exit 1 } }' ||
	bad "divided by a number: $(cat b), written out: $(cat a)"

# nothing counts: a loss of 0
model 'loss = cross_entropy(logits, labels, 0 * positions);'
[ "$(losses --pin dp=2 | sort -u)" = 0 ] || bad 'no token counts'

model 'loss = cross_entropy(logits, labels, c, ignore = 3);'
for pin in tp=2,sequence=on tp=2,cp=2 pp=2,dp=2,microbatch=1,zero=1; do
	run eval --compare --steps 2 -Wno-unused-value --pin $pin m.llm
	grep -q '^compared .*: at most [0-9.]*e-1[0-9] apart' out ||
		bad "the split $pin differs"
done
exit $failed
