#!/bin/sh
# Weights that a program that serves stores in 8 bits: what it answers is what
# the declared model answers with weights that PyTorch rounded, on one rank and
# on several, on GPUs, and the same alone and among others.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
unset LLMC_API_KEY http_proxy HTTP_PROXY
work='prompt=3,output=5,tokens=4,rows=2,keys=256,slots=384'
pid=
trap '[ -z "$pid" ] || kill $pid; rm -rf "$tmp"; [ $failed -eq 0 ] || exit 1' \
	EXIT

letters_tokenizer

# plan FOLDER WORKLOAD OPTION..: a program that serves $family
plan()
{
	folder=$1
	workload=$work$2
	shift 2
	run --serve --draft --workload "$workload" "$@" -o "$folder" \
		$family.llm || fail "no program: $workload $*"
}

# generate FOLDER WEIGHTS OPTION..: five tokens
generate()
{
	folder=$1
	shift
	"./$folder/rank" generate --weights "$@" --prompt bcd --tokenizer \
		tokenizer.json --tokens 5 --temperature 0 2>err ||
		fail "generate of $family by $folder"
}

# chances FOLDER WEIGHTS OUTPUT: of five tokens and the two next best, alone
# and while another request is answered
chances()
{
	: >said
	"./$1/rank" serve --local --weights "$2" --tokenizer tokenizer.json --port 0 \
		>said 2>err &
	pid=$!
	waits_for "$(sed -n 's/^model \([a-z0-9_]*\).*/\1/p' $family.llm)" said
	url=$(sed -n 's/^.* at \(.*\)\/v1, .*/\1/p' said)
	ask='{"prompt": "bcd", "max_tokens": 5, "temperature": 0,
		"logprobs": 3}'
	curl -sS -m 60 -H "$json" "$url/v1/completions" -d "$ask" |
		sed 's/.*"choices"/choices/; s/"usage".*//' >"$3"
	curl -sS -m 60 -H "$json" "$url/v1/completions" -d \
		'{"prompt": "ab", "max_tokens": 6}' >other &
	other=$!
	curl -sS -m 60 -H "$json" "$url/v1/completions" -d "$ask" |
		sed 's/.*"choices"/choices/; s/"usage".*//' >beside
	wait $other
	cmp -s beside "$3" || bad "$family by $1 differs among others"
	kill -TERM $pid
	wait $pid || bad "the server ended with $?"
	pid=
}

serves=
have http && command -v curl >/dev/null && serves=1

pairs='llama3-int8 llama-f8e4m3'
! have time || pairs="$pairs mixtral-int8 deepseek_v3-f8e4m3"
for pair in $pairs; do
	family=${pair%-*}
	form=${pair##*-}
	weights=$tests/interop/tiny/$family
	today 2 || continue
	theirs=$tests/interop/rounded/$pair.safetensors
	run import "$weights" -o $family.llm || exit
	plan declared '' --target cpux1
	plan rounded ,weights=$form --target cpux1
	generate declared "$theirs" >want
	generate rounded "$weights" >text
	cmp -s text want || bad "$pair has other tokens"
	if [ $serves ]; then
		chances declared "$theirs" want.chances
		chances rounded "$weights" chances
		near_numbers chances want.chances
	fi
	plan split ,weights=$form --target cpux4 --pin tp=2,pp=2
	generate split "$weights" --local >out
	cmp -s out text || bad "$pair on four ranks has other tokens"
	# the kernels of a GPU, which the host computes, one model a format
	case $pair in
	llama*int8 | deepseek_v3*)
		have compiler || continue
		LLMC_NVRTC=/nonexistent plan gpu ,weights=$form --target h100x1
		generate gpu "$weights" --local --device emulate >out
		cmp -s out text || bad "$pair has other tokens on a GPU"
		;;
	esac
done

# ---- what is refused ----

# The matrices of layers in 8 bits already, all of them zeros.
family=llama
run import "$tests/interop/tiny/llama" -o llama.llm || exit
LC_ALL=C tr -cd '[:print:]' <"$tests/interop/tiny/llama/model.safetensors" |
	grep -o '"[a-z_.0-9]*":{"dtype":"F32","shape":\[[0-9,]*\]' |
	awk -F'"' '{
		type = $2 ~ /_proj/ ? "I8" : "F32"
		shape = $0
		gsub(/.*\[|\]/, "", shape)
		bytes = type == "I8" ? 1 : 4
		for (i = split(shape, size, ","); i > 0; i--)
			bytes *= size[i]
		printf "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],", \
			(NR > 1 ? "," : "{"), $2, type, shape
		printf "\"data_offsets\":[%d,%d]}", at, at + bytes
		at += bytes
	}
	END { printf "}"; print at >"bytes" }' >header
n=$(wc -c <header)
{
	printf "$(printf '\\%03o\\%03o' $((n % 256)) $((n / 256)))"
	head -c 6 /dev/zero
	cat header
	head -c "$(cat bytes)" /dev/zero
} >eight.safetensors
plan rounded ,weights=int8 --target cpux1
! ./rounded/rank generate --weights eight.safetensors --prompt bcd --tokenizer \
	tokenizer.json --tokens 5 >out 2>err || bad 'weights of 8 bits are read'
grep -q '_proj.*found I8, expected .*quantization_config.*there is none' err ||
	bad "of weights of 8 bits: $(cat err)"

! ./rounded/rank export folder --weights "$tests/interop/tiny/llama" \
	>out 2>err || bad 'rounded weights are exported'
grep -q 'stored rounded here: export with' err || bad "of export: $(cat err)"
[ ! -e folder ] || bad 'a folder of an export that was refused'
exit $failed
