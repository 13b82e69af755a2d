#!/bin/sh
# What llmc import is given that is not right: an error that says where and
# what, exit status 1, and no file.
. "${top_srcdir:?}/tests/lib.sh"
tiny=$tests/interop/tiny

# fresh FAMILY: a folder d with its files
fresh()
{
	chmod -R u+rwX d 2>/dev/null
	rm -rf d m.llm
	cp -R "$tiny/${1-llama}" d
	chmod -R u+w d
	rm -f d/tokens* d/expected*
}

n=0
# refused WHAT WORDS: of the folder d
refused()
{
	n=$((n + 1))
	"$LLMC" import "${3-d}" -o m.llm >out 2>err
	status=$?
	[ $status -eq 1 ] || bad "$1: exit status $status"
	grep -qF "$2" err || bad "$1: expected $2"
	[ ! -e m.llm ] || bad "$1: a file was written"
}

# edit SCRIPT: of sed, on config.json
edit()
{
	sed "$1" d/config.json >e && mv e d/config.json
}

# only TEXT: config.json is that
only()
{
	fresh
	printf '%s' "$1" >d/config.json
}

# ---- JSON ----

only ''
refused 'an empty file' "config.json:1:1: error: found the end of the text"
only '[1, 2]'
refused 'a list' "config.json:1:1: error: found '[', expected '{'"
only '{"model_type": "llama", "hidden_size":'
refused 'a truncated file' 'found the end of the text, expected a value'
only '{"model_type": "llama"} x'
refused 'words after the end' "found 'x', expected only spaces"
only '{"model_type": "llama", "model_type": "gpt2"}'
refused 'a key twice' "found key 'model_type' twice"
only '{"a": tru}'
refused 'a wrong word' "config.json:1:7: error: found 't', expected a value"
only '{"a": 01}'
refused 'a leading zero' 'found'
only '{"a": 1e999}'
refused 'an infinite number' 'found a number that no float64 holds'
only '{"a": NaN}'
refused 'NaN' "found 'N', expected a value"
only "{\"a\": $(printf '%070d' 0 | sed 's/0/[/g')"
refused 'deep nesting' 'values nested too deep, expected at most 8'
only "{\"a\": [$(yes 0, | head -n 6000 | tr -d '\n')0]}"
refused 'too many values' 'found too many values, expected at most 5000'
only "$(printf '{"a": "\377"}')"
refused 'no UTF-8' 'found byte 0xff'
only '{"a": "\u0000"}'
refused 'a NUL in a text' 'found \u0000'
head -c 5000000 /dev/zero | tr '\0' ' ' >d/config.json
refused 'a huge file' 'and a config.json has at most 4194304'

# ---- which model ----

# What only the model's rules refuse is shown in the file that the user has.
fresh
edit 's/"num_attention_heads": 4/"num_attention_heads": 3/'
refused 'heads and keys' 'd/config.json:18:26: error: `heads` = 3 is not a multiple'
grep -q 'config.json:20:26: note: `kv` is `num_key_value_heads` here' err ||
	bad 'the other field is not shown'
grep -q '^llmc: note: `q` is f32' err || bad 'no note of the types'
grep -qE 'm.llm|imported model' err && bad 'a place in a file that is not there'
fresh
edit 's/"head_dim": 2/"head_dim": 5/'
refused 'an odd head' 'd/config.json:10:15: error: rope rotates pairs'
# A number of the file that a rule forbids is shown where it is, also inside an
# expression, or if it was computed from others.
fresh
edit 's/"rms_norm_eps": [^,]*/"rms_norm_eps": 0/'
refused 'a norm without eps' 'd/config.json:23:19: error: `eps` is 0, and it must be above 0'
fresh
edit 's/"rope_theta": [^,]*/"rope_theta": 0/'
refused 'a theta of 0' 'd/config.json:25:19: error: `theta` is 0'
fresh llama3
edit 's/"low_freq_factor": [^,]*/"low_freq_factor": 0/'
refused 'a factor of 0' "d/config.json:$(grep -n low_freq_factor d/config.json |
	cut -d: -f1):24: error: \`low\` is 0"
fresh gemma2
edit 's/"query_pre_attn_scalar": [^,]*/"query_pre_attn_scalar": 0/'
refused 'a scale without end' 'd/config.json:28:28: error: 1 / 0 is not a finite number'
fresh deepseek_v3
edit 's/"first_k_dense_replace": [^,]*/"first_k_dense_replace": 99/'
refused 'more dense layers than layers' 'd/config.json:10:28: error: the count of a repeat is -97'
fresh gpt_neox
edit 's/"partial_rotary_factor": [^,]*/"partial_rotary_factor": 0/'
refused 'no pairs to rotate' ': error: dim `rot` is 0'
grep -q 'note: `rot` is computed from `rope_parameters.partial_rotary_factor`' \
	err || bad 'what a dim is computed from'
fresh mpt
edit 's/"alibi_bias_max": [^,]*/"alibi_bias_max": 4/'
refused 'other slopes than the library has' '`attn_config.alibi_bias_max` is 4, and only 8 can be imported'
fresh mpt
edit 's/"clip_qkv": [^,]*/"clip_qkv": 6.0/'
refused 'numbers that are cut off' '`attn_config.clip_qkv` is 6.0, and only null can be imported'
fresh mpt
edit 's/"alibi": [^,]*/"alibi": false/'
refused 'no ALiBi' '`attn_config.alibi` is false, and only true can be imported'
fresh phi3_long
edit 's/"original_max_position_embeddings": [^,]*/"original_max_position_embeddings": 1/'
refused 'a length of training of 1' 'and a whole number of 2 to 2^48 is expected'
grep -q 'config.json:1:1' err && bad 'the beginning of the file'
fresh
edit 's/"intermediate_size": 12/"intermediate_size": 13/'
refused 'another shape' 'llmc: error: `model.layers.0.mlp.gate_proj.weight` of'
grep -qE 'm.llm|imported model' err && bad 'a place in a file that is not there'


only '{"hidden_size": 4}'
refused 'no model_type' 'there is no `model_type`'
only '{"model_type": 3}'
refused 'model_type is a number' '`model_type` is a number, and a text'
fresh
edit 's/"llama"/"lama"/'
refused 'an unknown family' 'no family is called `lama` (did you mean `llama`?)'
fresh
edit 's/"llama"/"bert"/'
refused 'another family' 'there are bloom, deepseek_v2, deepseek_v3,'
fresh
edit 's/"llama"/"decoder.part"/'
refused 'the name of a part' 'no family is called `decoder.part`'
fresh
edit 's/LlamaForCausalLM/LlamaForSequenceClassification/'
refused 'another head' '`architectures` has no LlamaForCausalLM'
fresh
edit 's/"LlamaForCausalLM"/7/'
refused 'architectures holds a number' 'has no LlamaForCausalLM'
fresh gpt_neox
edit 's/"rope_type": "default"/"rope_type": "yarn", "factor": 4/'
refused 'an extension of a part' 'cannot be imported yet: rotary extensions'
fresh phi3
edit 's/"rope_type": "default"/"rope_type": "longrope"/'
refused 'LongRoPE without its factors' 'longrope has no `long_factor`'
fresh gemma3
edit 's/"sliding_attention",/"chunked_attention",/'
refused 'a kind of layer' '`chunked_attention` is no kind of layer'
fresh gemma3
edit '1,/"full_attention"/s/"full_attention"/""/'
refused 'an empty kind of layer' \
	'gemma3_text has: these are `sliding_attention`, `full_attention`'
fresh gemma3
edit 's/"num_hidden_layers": 7/"num_hidden_layers": 8/'
refused 'kinds for other layers' '`layer_types` is a list of 8 kinds'

# ---- fields ----

fresh
edit '/"hidden_size"/d'
refused 'a field that is missing' 'there is no `hidden_size`, which the family'
fresh
edit '/"hidden_size"/s/8/null/'
refused 'a field of null' 'd/config.json:12:18: error: `hidden_size` is null, and the family llama needs it'
fresh
edit 's/"hidden_size"/"hiden_size"/'
refused 'a misspelt field' '(did you mean `hiden_size`?)'
fresh
edit 's/"vocab_size"/"clip_qkv": 8, "vocab_size"/'
refused 'an unknown field' '`clip_qkv` is not known of the family llama'
fresh
edit 's/"hidden_size": 8/"hidden_size": "8"/'
refused 'a text for a number' '`hidden_size` is a text, and a whole number'
fresh
edit 's/"hidden_size": 8/"hidden_size": 8.5/'
refused 'half a unit' '`hidden_size` is 8.5, and a whole number of 1 to 2^48'
fresh
edit 's/"hidden_size": 8/"hidden_size": -8/'
refused 'a negative size' '`hidden_size` is -8'
fresh
edit 's/"hidden_size": 8/"hidden_size": 1e30/'
refused 'a huge size' '`hidden_size` is 1e30'
fresh
edit 's/"num_hidden_layers": 2/"num_hidden_layers": 2000000/'
refused 'too many layers' 'the count'
fresh
edit 's/"num_attention_heads": 4/"num_attention_heads": 3/; /"head_dim"/d'
refused 'heads that do not divide' 'd/config.json:17:26: error: `head_dim` is not given, and hidden_size / num_attention_heads is not whole'
fresh
edit 's/"num_key_value_heads": 2/"num_key_value_heads": 3/'
refused 'heads in uneven groups' '`heads` = 4 is not a multiple of `kv` = 3'
fresh
edit 's/"silu"/"quick_gelu"/'
refused 'an activation' '`quick_gelu` is an activation that no op computes'
fresh
edit 's/"tie_word_embeddings": false/"tie_word_embeddings": 0/'
refused 'a number for a flag' '`tie_word_embeddings` is a number, and true or false'
fresh
edit 's/"rope_type": "default"/"rope_type": "spiral"/'
refused 'a rotary extension' '`spiral`, a rotary extension that rope() cannot say'
fresh
edit 's/"rope_type": "default"/"rope_type": "linear"/'
refused 'an extension without its factor' 'rotary extension linear has no `factor`'
fresh
edit 's/"rope_type": "default"/"beta_fast": 32/'
refused 'a field inside another' '`rope_parameters.beta_fast` is not known'
fresh
edit 's/"rope_parameters": {/"rope_scaling": 4, "rope_parameters": {/'
refused 'no object' '`rope_scaling` is expected to be an object or null'
fresh
edit 's/"float32"/"int8"/'
refused 'a dtype' '`dtype` is float32, bfloat16 or float16, found `int8`'
fresh qwen2
edit '0,/"full_attention"/s//"sliding_attention"/'
refused 'layers with a window' 'without use_sliding_window no layer has a'
fresh qwen2
edit 's/"use_sliding_window": false/"use_sliding_window": true/
	s/"full_attention"/"chunked_attention"/'
refused 'a kind of layer' '`chunked_attention` is no kind of layer'

# ---- files ----

fresh
rm d/config.json
refused 'no config.json' 'd has no config.json'
refused 'no folder' 'cannot read nowhere' nowhere
fresh
: >d/model.safetensors
refused 'empty weights' 'model.safetensors: '
fresh
head -c 3000 d/model.safetensors >w && mv w d/model.safetensors
refused 'truncated weights' 'model.safetensors: '
fresh
edit 's/"intermediate_size": 12/"intermediate_size": 16/'
refused 'another shape' 'gate_proj.weight` of d/model.safetensors is [12, 8], and [16, 8]'
fresh
edit 's/"num_hidden_layers": 2/"num_hidden_layers": 3/'
refused 'a layer that is missing' 'has no tensor `model.layers.2.'
fresh
edit 's/"num_hidden_layers": 2/"num_hidden_layers": 1/'
refused 'a layer too many' 'model.layers.1.'
fresh
edit 's/"tie_word_embeddings": false/"tie_word_embeddings": true/'
refused 'a head of its own' 'lm_head.weight'
fresh mixtral_aux
edit 's/"output_router_logits": true/"output_router_logits": 1/'
refused 'a flag of 1' '`output_router_logits` is a number, and true or false'
fresh mixtral_aux
edit 's/"router_aux_loss_coef": 0.5/"router_aux_loss_coef": 1e39/'
refused 'a coefficient that f32 lacks' '1e39 is infinite in f32'
fresh
rm d/model.safetensors
cat >d/model.safetensors.index.json <<'END'
{"metadata": {"total_size": 4}, "weight_map": {"a": "gone.safetensors"}}
END
refused 'a shard that is missing' 'gone.safetensors: '
echo '{"weight_map": {"a": "../x"}}' >d/model.safetensors.index.json
refused 'a shard elsewhere' "a path with '..'"
fresh
ln -sf /dev/zero d/config.json
refused 'an endless file' 'cannot read'
echo "$n broken inputs" >&2

# ---- the command line ----

wrong()
{
	"$LLMC" "$@" >out 2>err
	[ $? -eq 2 ] || bad "$*: exit status"
}
wrong import
grep -q 'takes a Hugging Face folder' err || bad 'no input'
wrong import --weights x d
fresh
"$LLMC" import --dim hiden=4 d >out 2>err && bad 'a dim that is none'
grep -q 'has no dim `hiden` (did you mean `hidden`?)' err || bad 'the dim'
# what --dim says is shown as it is said, where it and not the file is at fault

# says LINE..: the first lines of errors and notes that are somewhere
says()
{
	grep '^[^ l].*:[0-9]*: ' err >told
	printf '%s\n' "$@" >want
	cmp -s told want || bad "expected: $(cat want); found: $(cat told)"
}
"$LLMC" import --dim hd=7 d >out 2>err && bad 'an odd head'
error='rope rotates pairs, and the last dim of'
says "--dim:1:1: error: $error f32[batch, seq, heads, hd], \`hd\` = 7, is odd" \
	"--dim:1:1: error: $error f32[batch, seq, kv, hd], \`hd\` = 7, is odd"
"$LLMC" import --dim kv=3 d >out 2>err && bad 'three heads of keys'
says '--dim:1:1: error: `heads` = 4 is not a multiple of `kv` = 3' \
	'd/config.json:18:26: note: `heads` is `num_attention_heads` here'
"$LLMC" import --dim kv=3 --dim heads=4 d >out 2>err && bad 'both given'
says '--dim:1:1: error: `heads` = 4 is not a multiple of `kv` = 3' \
	'--dim:1:1: note: `kv` is given here'
"$LLMC" import --dim hidden=4611686018427387904 d >out 2>err && bad 'too large'
says '--dim:1:1: error: dim `hidden` is 4611686018427387904, and 1 to 281474976710656 is legal'
# where the message names no dim, those count that it is shown at
many='the count of a repeat is 99999999999, and 1 to 1000000 is legal'
"$LLMC" import --dim layers=99999999999 d >out 2>err && bad 'too many layers'
says "--dim:1:1: error: $many"
edit '/num_hidden_layers/s/2/99999999999/'
"$LLMC" import d >out 2>err && bad 'too many layers of a file'
says "d/config.json:19:24: error: $many" \
	'd/config.json:19:24: note: `layers` is `num_hidden_layers` here'
exit $failed
