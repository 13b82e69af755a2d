#!/bin/sh
# What is too large is refused by its size, before the work and the memory
# that it would take.
. "${top_srcdir:?}/tests/lib.sh"

# ---- what evaluation holds ----

large=$examples/llama-2-70b.llm
held='are held, and the limit is 17,179,869,184'
cheaply refused "$held" eval "$large"
cheaply refused "$held" eval --compare --pin tp=2 "$large"
cheaply refused 'of weights, gradients and states of the optimizer, and' \
	eval --steps 2 "$large"
small=$examples/tiny-dense.llm
run eval --steps 2 --max-bytes=10000000 "$small"
refused 'optimizer, and the limit is 1,000,000' eval --steps 2 --max-bytes=1000000 \
	"$small"
# A comparison keeps what each step made.
cheaply refused 'those of 1000000 steps to compare with, and the limit is' \
	eval --compare --steps 1000000 --pin tp=2 "$small"
# So many ranks that noting where their values are takes too much.
sed 's/batch *= *[0-9]*/batch = 65536/' "$small" >many.llm
cheaply refused 'running all 65536 ranks takes more than' eval \
	--max-bytes=100000000 --pin dp=65536,microbatch=1 many.llm

# ---- how long it takes ----

# model STATEMENT LAYERS: one of that statement, in the file model.llm.
model()
{
	{
		echo 'model m { dim seq = 4, hidden = 8, vocab = 8;'
		echo "$2"
		echo 'x = embed(tokens, vocab -> hidden) @ "e";'
		echo "$1"
		echo 'logits = linear(x -> vocab) @ "h";'
		echo 'loss = cross_entropy(logits, labels); }'
		echo 'train { batch = 2; optimizer = adamw(lr = 1e-3); }'
	} >model.llm
}

# Layers of which each calls the one before it twice, of nothing and of an op.
for body in x 'x + x'; do
	model 'x = a40(x);' "$(
		echo "layer a0(x[batch, seq, hidden]) { return $body; }"
		for i in $(seq 40); do
			echo "layer a$i(x[batch, seq, hidden]) {"
			echo "return a$((i - 1))(a$((i - 1))(x)); }"
		done
	)"
	for command in eval --emit=summary '--target h100x8' \
		'eval --compare --pin dp=2'; do
		# shellcheck disable=SC2086 # words
		cheaply refused 'more than 1048576 nodes' $command model.llm
	done
done
nested='x = x + x;'
for i in $(seq 5); do
	nested="repeat 1000 as i$i { $nested }"
done
model "$nested" ''
cheaply refused 'more than 2^40 ops' eval -w model.llm
cheaply refused 'more than 2^40 ops' eval -w --steps 1 model.llm

# ---- tables and targets ----

# A wide head and many short rows: memory grows with what stands there.
{
	seq -s '	' 20000
	yes x | head -n 300000
} >wide.tsv
cheaply refused 'this row has 1 cells, and there are 20000 columns' \
	validate wide.tsv
head -c 20000000 /dev/zero | tr '\0' '\t' >wide.tsv
cheaply refused 'this file is empty' validate wide.tsv
echo x >>wide.tsv
cheaply refused 'more than 2000000 cells' validate wide.tsv
yes 'target a { accelerator = h100; }' | head -n 30000 >many.target
cheaply refused '30000 kinds of node are more than 32' target ./many.target
exit $failed
