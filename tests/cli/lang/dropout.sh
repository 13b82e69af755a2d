#!/bin/sh
# Dropout: what is dropped follows from names, seed and step alone. A layer
# called twice by the names of a repeat's iterations is that repeat, each step
# has other masks, and a second run, other saves or merged nodes have the same.
. "${top_srcdir:?}/tests/lib.sh"

# model NAME BODY [HINT]
model()
{
	cat >"$1.llm" <<END
model m {
  dim seq = 8, hidden = 16, vocab = 32;
  ${3:-}
  layer drop(x[batch, seq, hidden]) { return dropout(x, p = 0.3); }
  layer block(x[batch, seq, hidden]) {
    return x + drop(dropout(silu(rmsnorm(x) @ "n"), p = 0.5));
  }
  x = embed(tokens, vocab -> hidden) @ "e";
  $2
  logits = linear(x -> vocab) @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 2; optimizer = sgd(lr = ${rate:-0.5}); seed = 1; }
END
}

# same ONE OTHER OPTIONS...
same()
{
	one=$1 other=$2
	shift 2
	run eval "$one.llm" "$@" || exit
	mv out one
	run eval "$other.llm" "$@" || exit
	cmp -s one out
}

loop='repeat 2 as i { x = block(x) @ "h.{i}"; }'
model loop "$loop"
model calls 'x = block(x) @ "h.0"; x = block(x) @ "h.1";'
model renamed 'x = block(x) @ "h.0"; x = block(x) @ "h.2";'
model full "$loop" 'recompute full;'
for seed in 1 2; do
	same loop calls --seed $seed --steps 4 || bad 'iterations are not calls'
	same loop loop --seed $seed --steps 4 || bad 'a second run differs'
	same loop full --seed $seed --steps 4 || bad 'rebuilt masks differ'
	same loop renamed --seed $seed && bad 'another name, the same mask'
done

# weights stand still, and the loss moves with the masks alone
rate=0
model still "$loop"
run eval still.llm --steps 6
[ "$(sort -k 4 -u out | wc -l)" -eq 6 ] || bad 'two steps have one mask'

# a mask is a byte of what is saved, and none at all under `full`
sed 's/dropout(\(.*\), p = 0.[35])/dropout(\1, p = 0)/' loop.llm \
	>without.llm
more=$(($(saved loop.llm) - $(saved without.llm)))
[ $more -eq $((2 * 2 * 2 * 8 * 16)) ] || bad "masks take $more bytes"
[ "$(saved full.llm)" -eq $((2 * 2 * 8 * 16 * 4)) ] ||
	bad 'something but the start of an iteration is saved'
exit $failed
