#!/bin/sh
# llmc import of public shapes: parameters as published, to the last one, and
# a plan for a node; and what else the command does.
. "${top_srcdir:?}/tests/lib.sh"
public=$tests/interop/public

# import NAME [OPTION..]: its model in $1.llm
import()
{
	from=$public/$1 to=$1.llm
	shift
	"$LLMC" import "$from" "$@" -o "$to" >out 2>err ||
		bad "import $from $*"
}

# The biases that correct DeepSeek's router are not trained, but counted.
count()
{
	"$LLMC" --emit=summary-json "$1" 2>err |
		sed -n 's/.*"\(parameters\|state_elems\)": \([0-9]*\).*/\2/p' |
		paste -sd+ - | bc
}

# Parameters as the model's page has them.
while read -r name published plan; do
	import "$name" || continue
	n=$(count "$name.llm")
	[ "$n" = "$published" ] ||
		bad "$name has $published parameters, imported $n"
	have time || plan=
	# shellcheck disable=SC2086 # a target, and dims
	[ ! "$plan" ] || "$LLMC" --target "$plan" --dim seq=4096 \
		"$name.llm" >out 2>err || bad "plan $name"
	[ ! "$plan" ] || grep -q '^rate .*tokens/s' out ||
		bad "$name has no plan"
done <<'END'
Llama-3.1-8B 8030261248 h100x8
Llama-3.2-1B 1235814400
Llama-2-7b-hf 6738415616
Mistral-7B-v0.1 7241732096
Mixtral-8x7B-v0.1 46702792704 h100x8x2@ib400
Qwen2-7B 7615616512
Qwen3-32B 32762123264 h100x8
Qwen3-30B-A3B 30532122624
Qwen1.5-MoE-A2.7B 14315784192 h100x8
gemma-7b 8537680896
Phi-3-mini-4k-instruct 3821079552
OLMo-2-1124-7B 7298617344
granite-3.0-8b-base 8170848256
starcoder2-7b 7173923840
gpt2 124439808
gemma-2-9b 9241705984 h100x8
gemma-3-1b-pt 999885952
Phi-3-medium-128k-instruct 13960238080
DeepSeek-V2-Lite 15706484224 h100x8
DeepSeek-V3 671026419200
gpt-oss-120b 116829156672 h100x8x2@ib400
pythia-6.9b 6857302016 h100x8
END

# ---- a text as a person would write it ----

import Llama-3.1-8B
has()
{
	grep -qF "$1" Llama-3.1-8B.llm || bad "no line: $1"
}
has 'model llama_3_1_8b {'
has '  dim layers = 32;                # num_hidden_layers'
has '  dim hd = hidden / heads;        # head_dim is not given'
has '    q = rope(q, theta = 500000, factor = 8, low = 1, high = 4, original = 8192);'
has '  num_hidden_layers = layers;'
has '  rope_scaling.rope_type = "llama3";'
"$LLMC" -Werror "Llama-3.1-8B.llm" >out 2>err || bad 'it has warnings'

# ---- what is left out ----

import gpt2
grep -q '^[^ ]*config.json:6:17: warning: `attn_pdrop` is 0.1: dropout' err ||
	bad 'dropout is left out in silence'
import gpt2 -Wno-left-out
[ ! -s err ] || bad 'a warning that is off'
"$LLMC" import -Werror=left-out "$public/gpt2" >out 2>err && bad 'an error'
[ ! -s out ] || bad 'a model beside an error'
import Llama-3.1-8B
[ ! -s err ] || bad 'nothing is left out'

# ---- Qwen's windows, by the number of the layer or a list of kinds ----

# qwen NAME EDITS..: the model of eight layers with windows, in qwen.llm
qwen()
{
	name=$1
	shift
	sed 's/"use_sliding_window": [a-z]*/"use_sliding_window": true/
		s/"sliding_window": [a-z0-9]*/"sliding_window": 3/
		s/"num_hidden_layers": 2/"num_hidden_layers": 8/
		/"layer_types"/,/\]/d' "$tests/interop/tiny/$name/config.json" |
		sed "$@" >config.json
	"$LLMC" import config.json -o qwen.llm >out 2>err || bad "import $name"
	"$LLMC" -Werror --emit=summary qwen.llm >out 2>err ||
		bad "$name with windows: $(cat err)"
}
for name in qwen2 qwen3; do
	qwen $name 's/"max_window_layers": 28/"max_window_layers": 5/'
	sed -n '/^  repeat/p' qwen.llm >found
	cat >want <<'END'
  repeat 5 as i { x = block(x)  @ "model.layers.{i}"; }
  repeat layers - 5 as i from 5 { x = local(x)  @ "model.layers.{i}"; }
END
	cmp -s found want || bad "$name: $(cat found)"
	sed -n '/^  layer/p; s/^ *a = //p' qwen.llm | tr -d '\n' >found
	printf '%s' '  layer block(x[batch, seq, hidden]) {' \
		'attention(q, k, v, causal);' \
		'  layer local(x[batch, seq, hidden]) {' \
		'attention(q, k, v, causal, window = 3);' >want
	cmp -s found want || bad "$name: $(cat found)"
done
full='"full_attention"' local='"sliding_attention"'
two="$full, $local"
qwen qwen2 "s/\"max_window/\"layer_types\": [$two, $two, $two, $two],\n&/"
grep -q '^  repeat layers / 2 as i' qwen.llm || bad 'layers that alternate'
qwen qwen2_moe 's/"max_window_layers": 28/"max_window_layers": 3/'
sed -n 's/^  *\(repeat\|x =\) \(.*model.layers.*\)/\2/p' qwen.llm >found
cat >want <<'END'
local(x)  @ "model.layers.0";
block(x)  @ "model.layers.1";
local(x)  @ "model.layers.2";
layers - 3 as i from 3 { x = block(x)  @ "model.layers.{i}"; }
END
cmp -s found want || bad "qwen2_moe: $(cat found)"
qwen qwen3_moe ''
grep -q 'causal, window = 3);' qwen.llm || bad 'qwen3_moe has no window'
qwen qwen2 's/"max_window_layers": 28/"max_window_layers": 0/'
grep -q 'layer block' qwen.llm && bad 'no layer sees all keys'

# ---- dims, and the file itself ----

import Llama-3.1-8B --dim seq=2048 --dim layers=2
has '  dim seq = 2048;                 # --dim; config.json has 131072'
"$LLMC" --emit=config Llama-3.1-8B.llm >config.json
grep -q '"max_position_embeddings": 2048,' config.json ||
	bad 'config.json does not follow the dims'
"$LLMC" import config.json >again.llm 2>err || bad 'import of a file'
grep -q '^model llama {' again.llm || bad 'a file of no folder has a name'
"$LLMC" --emit=config again.llm >config2.json
cmp -s config.json config2.json || bad 'config.json changes on its way'
"$LLMC" import - <config.json >again2.llm 2>err || bad 'import of stdin'
cmp -s again.llm again2.llm || bad 'stdin differs'

# A model that is written by hand may have the block, too; another has none.
cat >hand.llm <<'END'
model m {
  dim hidden = 4 * 2, vocab = 6, seq = 4;
  x = embed(tokens, vocab -> hidden) @ "e";
  logits = linear(x -> vocab)        @ "h";
  loss = cross_entropy(logits, labels);
}
export {
  a.b = hidden; n = -1; a.c.d = list("x", 2, 0.0, true); z = null;
  architectures = list("M"); none = list(); half = 0.5;
}
END
cat >hand.json <<'END'
{
  "a": {
    "b": 8,
    "c": {
      "d": [
        "x",
        2,
        0.0,
        true
      ]
    }
  },
  "n": -1,
  "z": null,
  "architectures": [
    "M"
  ],
  "none": [],
  "half": 0.5
}
END
"$LLMC" --emit=config hand.llm >out 2>err || bad 'a block by hand'
cmp -s out hand.json || bad 'its config.json differs'
"$LLMC" --emit=ir hand.llm >hand.ir && "$LLMC" opt --emit=ir hand.ir |
	cmp -s - hand.ir || bad 'its IR reads back'
"$LLMC" --emit=config "$examples/tiny-dense.llm" >out 2>err &&
	bad 'a model without the block has a config.json'
grep -q 'no block `export`' err || bad 'it is not said'
exit $failed
