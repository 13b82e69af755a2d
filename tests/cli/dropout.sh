#!/bin/sh
# Dropout: what is dropped follows from names, seed and step alone. A layer
# called twice by the names of a repeat's trips is that repeat, each step has
# other masks, and a second run, other saves or merged nodes have the same.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT

# model NAME BODY [HINT]
model()
{
	cat >"$tmp/$1.llm" <<END
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
	one=$1
	other=$2
	shift 2
	"$LLMC" eval "$tmp/$one.llm" "$@" >"$tmp/one" || exit 1
	"$LLMC" eval "$tmp/$other.llm" "$@" >"$tmp/other" || exit 1
	cmp -s "$tmp/one" "$tmp/other"
}

trips='repeat 2 as i { x = block(x) @ "h.{i}"; }'
model trips "$trips"
model calls 'x = block(x) @ "h.0"; x = block(x) @ "h.1";'
model renamed 'x = block(x) @ "h.0"; x = block(x) @ "h.2";'
model full "$trips" 'recompute full;'
wrong()
{
	echo "$*"
	cat "$tmp/one" "$tmp/other"
	exit 1
}
for seed in 1 2; do
	same trips calls --seed $seed --steps 4 || wrong 'trips are not calls'
	same trips trips --seed $seed --steps 4 || wrong 'a second run differs'
	same trips full --seed $seed --steps 4 || wrong 'rebuilt masks differ'
	same trips renamed --seed $seed && wrong 'another name, the same mask'
done

# weights stand still, and the loss moves with the masks alone
rate=0
model still "$trips"
"$LLMC" eval "$tmp/still.llm" --steps 6 >"$tmp/one" || exit 1
[ "$(sort -k 4 -u "$tmp/one" | wc -l)" -eq 6 ] || {
	echo 'two steps have one mask:'
	cat "$tmp/one"
	exit 1
}

# a mask is a byte of what is saved, and none at all under `full`
saved()
{
	"$LLMC" --passes=train --verify-each --emit=summary-json "$1" |
		sed -n 's/.*"saved_bytes": *\([0-9]*\).*/\1/p'
}
sed 's/dropout(\(.*\), p = 0.[35])/dropout(\1, p = 0)/' "$tmp/trips.llm" \
	>"$tmp/without.llm"
more=$(($(saved "$tmp/trips.llm") - $(saved "$tmp/without.llm")))
[ $more -eq $((2 * 2 * 2 * 8 * 16)) ] || {
	echo "masks take $more bytes"
	exit 1
}
[ "$(saved "$tmp/full.llm")" -eq $((2 * 2 * 8 * 16 * 4)) ] || {
	echo 'something but the start of a trip is saved'
	exit 1
}
