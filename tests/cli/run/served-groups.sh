#!/bin/sh
# Weights that a program that serves stores in groups of 4 bits.  Those here are
# such numbers already, so rounding changes none of them, and what the program
# answers is what one answers that stores them as declared: on one rank and on
# several, for dense models and experts, which ep splits, and on GPUs, which the
# host emulates.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
unset LLMC_API_KEY http_proxy HTTP_PROXY
work='prompt=24,output=5,tokens=24,rows=2,keys=256,slots=384'
pid=
trap '[ -z "$pid" ] || kill $pid; rm -rf "$tmp"; [ $failed -eq 0 ] || exit 1' \
	EXIT
letters_tokenizer

# shapes FAMILY: the name and the dims of each tensor
shapes()
{
	echo "model.embed_tokens 20 128"
	for i in 0 1; do
		l=model.layers.$i
		echo "$l.input_layernorm 128"
		echo "$l.self_attn.q_proj 256 128"
		echo "$l.self_attn.k_proj 128 128"
		echo "$l.self_attn.v_proj 128 128"
		echo "$l.self_attn.o_proj 128 256"
		echo "$l.post_attention_layernorm 128"
		if [ "$1" = llama ]; then
			echo "$l.mlp.gate_proj 256 128"
			echo "$l.mlp.up_proj 256 128"
			echo "$l.mlp.down_proj 128 256"
			continue
		fi
		echo "$l.block_sparse_moe.gate 2 128"
		for e in 0 1; do
			x=$l.block_sparse_moe.experts.$e
			echo "$x.w1 256 128"
			echo "$x.w2 128 256"
			echo "$x.w3 256 128"
		done
	done
	echo "model.norm 128"
	echo "lm_head 20 128"
}

# numbers: what they hold, as letters: two for each bf16, a to o are the
# multiples of a scale from -7 to 7, p is one.  Each group has a 7; the head,
# which is int8, has -1, 0 and 1 alone.
numbers()
{
	awk 'BEGIN {
		split("a b c d e f g h i j k l m n o", letter, " ")
		x = 1
	}
	{
		n = NF == 2 ? $2 : $2 * $3
		out = ""
		for (i = 0; i < n; i++) {
			x = (x * 16807) % 2147483647
			k = int(x / 1000) % 15 + 1
			if ($1 ~ /head|embed/)
				k = k % 3 + 7
			else if (i % 128 == 9)
				k = 15
			c = NF == 2 ? "p" : letter[k]
			out = out c toupper(c)
			if (length(out) > 4000) {
				printf "%s", out
				out = ""
			}
		}
		printf "%s", out
	}'
}

# The low bytes of these bf16 and the high ones: 2^-5 times a number.
low='\140\100\040\000\300\200\000\000\000\200\300\000\040\100\140\200'
high='\276\276\276\276\275\275\275\000\075\075\075\076\076\076\076\077'

# weights FAMILY: the file $1.safetensors
weights()
{
	shapes "$1" | awk '{
		shape = NF == 2 ? $2 : $2 "," $3
		n = NF == 2 ? $2 : $2 * $3
		printf "%s\"%s.weight\":{\"dtype\":\"BF16\",\"shape\":[%s],", \
			(NR > 1 ? "," : "{"), $1, shape
		printf "\"data_offsets\":[%d,%d]}", at, at + 2 * n
		at += 2 * n
	}
	END { printf "}" }' >header
	n=$(wc -c <header)
	{
		printf "$(printf '\\%03o\\%03o' $((n % 256)) $((n / 256)))"
		head -c 6 /dev/zero
		cat header
		shapes "$1" | numbers | LC_ALL=C tr 'a-pA-P' "$low$high"
	} >"$1.safetensors"
}

# model FAMILY CLASS MORE: the file $1.llm, and $1-bf16.llm
model()
{
	mkdir "$1"
	cat >"$1/config.json" <<EOF
{"architectures": ["$2"], "model_type": "$1", "hidden_size": 128,
"intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
"num_key_value_heads": 2, "head_dim": 64, "vocab_size": 20, "hidden_act":
"silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": null,
"eos_token_id": null, "max_position_embeddings": 64, $3
"tie_word_embeddings": false, "torch_dtype": "float32"}
EOF
	run import "$1" -o "$1.llm" || exit
	sed 's/"float32"/"bfloat16"/' "$1/config.json" >config
	mv config "$1/config.json"
	run import "$1" -o "$1-bf16.llm" || exit
}

# plan FOLDER WORKLOAD OPTION..: a program that serves $family
plan()
{
	folder=$1
	workload=$work$2
	shift 2
	run --serve --draft --workload "$workload" "$@" -o "$folder" \
		$family.llm || fail "no program: $workload $*"
}

# generate FOLDER OPTION..: eight tokens
generate()
{
	folder=$1
	shift
	"./$folder/rank" generate --local --weights $weights.safetensors \
		--prompt abcdefghijklmnopqrst --tokenizer tokenizer.json \
		--tokens 8 --temperature 0 "$@" 2>err ||
		fail "generate of $family by $folder"
}

# emulated TARGET KEYS: what kernels of GPUs compute is what those of a CPU do
emulated()
{
	plan gpu ,weights=int4 --target $1 --pin $2
	generate gpu --device emulate >out
	cmp -s out text || bad "$family has other tokens on a GPU by $2"
	rm -rf gpu
}

# chances FOLDER OUTPUT: of five tokens and the two next best, after a prompt
# of as many positions as a step has
chances()
{
	: >said
	"./$1/rank" serve --local --weights $weights.safetensors --tokenizer \
		tokenizer.json --port 0 >said 2>err &
	pid=$!
	waits_for "$(sed -n 's/^model \([a-z0-9_]*\).*/\1/p' $family.llm)" said
	url=$(sed -n 's/^.* at \(.*\)\/v1, .*/\1/p' said)
	curl -sS -m 60 -H "$json" "$url/v1/completions" -d '{"prompt":
		"abcdefghijklmnopqrstabcd", "max_tokens": 5, "temperature": 0,
		"logprobs": 3}' |
		sed 's/.*"choices"/choices/; s/"usage".*//' >"$2"
	kill -TERM $pid
	wait $pid || bad "the server ended with $?"
	pid=
}

serves=
have http && command -v curl >/dev/null && serves=1

model llama LlamaForCausalLM ''
model mixtral MixtralForCausalLM \
	'"num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": null,'
for family in llama mixtral; do
	today 2 || continue
	weights=$family
	weights $family
	plan declared '' --target cpux1
	plan groups ,weights=int4 --target cpux1
	plan split ,weights=int4 --target cpux4 --pin tp=2,pp=2
	rounded='groups split'
	if [ $family = mixtral ]; then
		plan experts ,weights=int4 --target cpux4 --pin ep=2,tp=2
		rounded="$rounded experts"
	fi
	for x in declared $rounded; do
		generate $x >$x.text
	done
	for x in $rounded; do
		cmp -s $x.text declared.text || bad "$family by $x: other tokens"
	done
	for x in $rounded; do
		[ $serves ] || continue
		chances declared declared.chances
		chances $x $x.chances
		near_numbers $x.chances declared.chances
	done
	# nothing of it is to run on a GPU, and need not be compiled for one
	have compiler || continue
	LLMC_NVRTC=none LLMC_EMULATE_CHECK=0
	export LLMC_NVRTC LLMC_EMULATE_CHECK
	mv groups.text text
	! have time || emulated h100x1 tp=1
	family=$family-bf16
	rm -rf groups
	plan groups ,weights=int4 --target cpux1
	generate groups >text
	case $family in
	mixtral*) emulated h100x4 ep=2,tp=2 ;;
	*) emulated h100x4 tp=2,pp=2 ;;
	esac
	unset LLMC_NVRTC
	rm -rf groups
done
exit $failed
