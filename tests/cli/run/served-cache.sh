#!/bin/sh
# Programs that serve with a cache of 8 bits: what they answer is what
# transformers computes with a cache that PyTorch rounds, on one rank, on
# several and on GPUs; alone, among others, and after requests were preempted.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
unset LLMC_API_KEY http_proxy HTTP_PROXY
pid=
trap '[ -z "$pid" ] || kill $pid; rm -rf "$tmp"; [ $failed -eq 0 ] || exit 1' \
	EXIT

letters_tokenizer

# plan FOLDER MODEL WORKLOAD OPTION..: a program that serves it
plan()
{
	folder=$1 model=$2 workload=$3
	shift 3
	run --serve --draft --workload "$workload" "$@" -o "$folder" "$model" ||
		fail "no program: $workload $*"
}

# generate FOLDER OPTION..: five tokens
generate()
{
	folder=$1
	shift
	"./$folder/rank" generate --weights "$weights" --prompt bcd \
		--tokenizer tokenizer.json --tokens 5 --temperature 0 "$@" \
		2>err || fail "generate of $family by $folder"
}

# start FOLDER MODEL OPTION..: a server; $url is where
start()
{
	folder=$1 named=$2
	shift 2
	: >said
	"./$folder/rank" serve --local --port 0 "$@" >said 2>err &
	pid=$!
	waits_for "$named at" said
	url=$(sed -n 's/^.* at \(.*\)\/v1, .*/\1/p' said)
}

stop()
{
	kill -TERM $pid
	wait $pid || bad "the server ended with $?"
	pid=
}

# ask BODY: the tokens' logarithms of chances, one a line
ask()
{
	curl -sS -m 60 -H "$json" "$url/v1/completions" -d "$1" |
		sed 's/.*"token_logprobs":\[\([^]]*\)\].*/\1/' | tr , '\n'
}

# whether kernels have races is shown by tests/unit/cuda
export LLMC_EMULATE_CHECK=0

serves=
have http && command -v curl >/dev/null && serves=1

pairs='llama-f8e4m3 qwen3-f8e5m2'
! have time || pairs="$pairs deepseek_v3-f8e4m3 llama-f8e5m2"
for pair in $pairs; do
	family=${pair%-*} form=${pair##*-}
	weights=$tests/interop/tiny/$family
	work="prompt=3,output=5,tokens=4,rows=2,keys=256,slots=384,cache=$form"
	run import "$weights" -o $family.llm || exit
	plan one $family.llm $work --target cpux1
	grep "^$family $form " "$tests/interop/rounded/caches.txt" >want
	generate one >text
	[ "$(cut -d ' ' -f 3 want | tr -d '\n')" = "$(cat text)" ] ||
		bad "$pair has other tokens: $(cat text)"
	if [ $serves ]; then
		start one $family --weights "$weights" \
			--tokenizer tokenizer.json
		body='{"prompt": "bcd", "max_tokens": 5, "temperature": 0,
			"logprobs": 1}'
		ask "$body" >alone
		cut -d ' ' -f 4 want >want.chances
		near_numbers alone want.chances
		ask '{"prompt": "ab", "max_tokens": 6}' >other &
		other=$!
		ask "$body" >beside
		wait $other
		cmp -s alone beside || bad "$pair differs among others"
		stop
	fi
	plan split $family.llm $work --target cpux4 --pin tp=2,pp=2
	generate split --local >out
	cmp -s out text || bad "$pair on four ranks has other tokens"
	# the kernels of a GPU, which the host computes, and needs no images for
	have compiler || continue
	LLMC_NVRTC=/nonexistent plan gpu $family.llm $work --target h100x1
	generate gpu --local --device emulate >out
	cmp -s out text || bad "$pair has other tokens on a GPU"
done

# ---- more requests than the cache holds: some are preempted ----

model=$examples/tiny-dense.llm
work='prompt=32,output=16,context=64,tokens=16,rows=8,keys=512,slots=144'
if [ $serves ]; then
	run --target cpux1 --draft --dim seq=64 --pin microbatch=1 -o whole \
		"$model" || exit
	./whole/rank train --data draw --steps 2 --checkpoint ck >out 2>err ||
		fail training
	plan full "$model" "$work,cache=f8e4m3" --target cpux2 --pin tp=2 \
		--dim seq=64
	start full tiny_dense --checkpoint ck
	for i in $(seq 12); do
		echo next
		echo "url = $url/v1/completions"
		echo "header = \"$json\""
		echo "output = many.$i"
		printf 'data = "{\\"prompt\\":\\"once upon a time %s\\",' \
			$((i % 3))
		printf '\\"max_tokens\\":40,\\"temperature\\":0,'
		printf '\\"logprobs\\":1}"\n'
	done | sed 1d >many
	# each alone
	for i in 1 2 3; do
		ask "{\"prompt\": \"once upon a time $((i % 3))\",
			\"max_tokens\": 40, \"temperature\": 0,
			\"logprobs\": 1}" >want.$((i % 3))
		[ "$(wc -l <want.$((i % 3)))" -ge 39 ] ||
			bad "an answer of $(wc -l <want.$((i % 3)))"
	done
	for _ in 1 2 3 4 5 6 7 8; do
		curl -sS -m 100 -Z --parallel-max 12 -K many >out 2>err ||
			bad 'many at once'
		for i in $(seq 12); do
			sed 's/.*"token_logprobs":\[\([^]]*\)\].*/\1/' many.$i |
				tr , '\n' | cmp - want.$((i % 3)) ||
				bad "request $i has another answer"
		done
		[ "$(metric preemptions_total)" -eq 0 ] || break
	done
	[ "$(metric preemptions_total)" -gt 0 ] || bad 'nothing was preempted'
	[ "$(metric shared_positions_total)" -gt 0 ] || bad 'nothing was shared'
	stop
fi

# ---- memory: each position takes the bytes of its keys and values ----

# arena SLOTS CACHE: bytes of a rank, without what kernels use for a while
arena()
{
	plan arena llama.llm \
		"prompt=3,output=5,tokens=4,rows=2,keys=256,slots=$1$2" \
		--target cpux1
	./arena/rank inspect 2>err | awk '
		/^ *arena / { all = $2 }
		/^ *kernel scratch / { print all - $3 }'
}

# two layers, keys and values, two heads of two numbers
for form in ':4' ',cache=bf16:2' ',cache=f8e4m3:1' ',cache=f8e5m2:1'; do
	few=$(arena 512 "${form%:*}")
	more=$(arena 66048 "${form%:*}")
	[ "$((more - few))" -eq $((65536 * 16 * ${form#*:})) ] ||
		bad "65536 positions more of ${form%:*}: $few and $more bytes"
done

# ---- what is refused ----

refused '`cache` is f32, bf16, f16, f8e4m3 or f8e5m2' --serve --target cpux1 -o no \
	--workload 'prompt=3,output=5,cache=int8' llama.llm
exit $failed
