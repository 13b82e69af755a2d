#!/bin/sh
# A plan that serves, over one rank and over four: its tokens are those of the
# whole forward that `rank sample` of a plan for training computes, and neither
# what else is in a step nor the split changes a token or a bit of its chances.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
unset LLMC_API_KEY http_proxy HTTP_PROXY
work='prompt=8,output=4,context=16,tokens=8,rows=4,keys=512,slots=640'
model=$examples/tiny-dense.llm
pid=
trap '[ -z "$pid" ] || kill $pid; rm -rf "$tmp"; [ $failed -eq 0 ] || exit 1' \
	EXIT

# plan FOLDER OPTION..: a program that serves
plan()
{
	folder=$1
	shift
	run --serve --draft "$@" --workload $work -o "$folder" "$model" ||
		fail "no program: $*"
}

run --target cpux1 --draft --pin microbatch=1 -o whole "$model" || exit
./whole/rank train --data draw --steps 20 --lr 0.01 --checkpoint ck \
	>out 2>err || fail 'training'
plan one --target cpux1
grep -q '^           which hold [1-9][0-9]* sequences*: [1-9]' out &&
	grep -qx '           the batch above needs tokens=.*,rows=.*,keys=.*' out ||
	bad "what steps of a program hold: $(cat out)"
plan four --target cpux4 --pin tp=2,pp=2
# of a device, what its own stage and heads have
cached()
{
	sed -n 's/.*"cache_bytes": \([0-9]*\).*/\1/p' "$1/plan.json"
}
[ "$(cached one)" = $((4 * $(cached four))) ] ||
	bad "the cache of a device: $(cached one), $(cached four)"
plan two --target cpux2 --pin dp=2
./one/rank inspect --llp >out 2>err && bad 'a plan for training is printed'
grep -q '^rank: this plan was compiled to serve, and has no plan.llp' err ||
	bad 'inspect --llp'

# ---- generate ----

./whole/rank sample --checkpoint ck --prompt abcde --tokens 10 \
	--temperature 0 >ids 2>err || fail 'sample'
./one/rank generate --checkpoint ck --prompt abcde --tokens 10 \
	--temperature 0 >out 2>err || fail 'generate'
grep -q '^rank: 10 tokens' err || bad 'no rate'
mv out text
./one/rank generate --checkpoint ck --prompt abcde --tokens 1000 >out 2>err ||
	fail 'generate more than there is room for'
grep -q '^rank: 11 tokens, .* a second; the context is full: .* 16 tokens$' \
	err || bad 'why it ended is not said'
# bytes that are no text of their own are shown as U+FFFD
LC_ALL=C tr '\200-\377' '?' <ids >want
LC_ALL=C sed 's/\xef\xbf\xbd/?/g' text | cmp -s - want ||
	bad 'the cache changes the text'
./four/rank generate --local --checkpoint ck --prompt abcde --tokens 10 \
	--temperature 0 >out 2>err || fail 'generate on four ranks'
cmp -s out text || bad 'four ranks have another text'
# the same as if two hosts had two ranks each
ranks=
for r in 3 2 1 0; do
	RANK=$r WORLD_SIZE=4 LOCAL_RANK=$((r % 2)) LOCAL_WORLD_SIZE=2 \
		MASTER_ADDR=localhost \
		MASTER_PORT=$((10000 + ($$ + 7000) % 20000)) \
		./four/rank generate --checkpoint ck --prompt abcde \
		--tokens 10 --temperature 0 >out.$r 2>err.$r &
	ranks="$ranks $!"
done
for r in $ranks; do
	wait "$r" || bad "a rank of two hosts: $(cat err.?)"
done
cmp -s out.0 text || bad 'two hosts have another text'

# The kernels of two GPUs, which the host computes, as its own and by a driver:
# what NVRTC makes of them nothing runs, so on three of four days it makes none.
if have nvrtc compiler; then
	today 4 || fake_nvrtc || fail 'no NVRTC of the tests'
	LLMC_LINKER="$linker -O0 -Wl,-E" plan gpus --target h100x2 --pin tp=2
	./gpus/rank generate --local --device emulate --checkpoint ck \
		--prompt abcde --tokens 10 --temperature 0 >out 2>err ||
		fail 'generate on GPUs'
	cmp -s out text || bad 'GPUs have another text'
	(
		fake_gpus || fail 'no driver, or no NCCL'
		# ranks share a GPU, or have one each, and NCCL
		for devices in 1 2; do
			rm -f calls
			FAKE_LOG="$tmp/calls" FAKE_DEVICES=$devices \
				./gpus/rank generate --local --checkpoint ck \
				--prompt abcde --tokens 10 --temperature 0 \
				>out 2>err || fail "generate on $devices GPUs"
			cmp -s out text || bad "$devices have another text"
			[ "$(grep -c 'leaks 0' calls)" -eq 2 ] ||
				bad "$(cat calls)"
		done
		exit $failed
	) || failed=1
fi

# What does not fit is said with the setting that takes most.  Of a model that
# rotates what it has cached, keys are computed anew in each step.
sed 's/rope(k, theta = 500000), v/rope(cache(k), theta = 500000), cache(v)/' \
	"$examples/llama-3-8b.llm" >rotates.llm
"$LLMC" target rtx4090x1 | sed 's/memory = 24;/memory = 20;/' >small.target
for key in slots=1e9 tokens=65536,slots=4096 keys=16777216; do
	have nvrtc || break
	name=${key%%=*}
	refused "of what settings decide is for \`$name\` = " --serve \
		--draft --target ./small.target \
		--workload "prompt=8,output=4,$key" -o no rotates.llm
	grep -qF -e "--workload:1:$((${#name} + 20)):" err ||
		bad "$key: another place"
done

# Sequences that a measurement draws, without weights; and steps whose inputs
# differ in size by more than what memory is aligned to.
run --serve --draft --target cpux1 -o large "$model" --workload \
	prompt=8,output=4,context=16,tokens=300,rows=4,keys=512,slots=640 ||
	fail 'no program: steps of 300'
# as few slots as a request needs, in whose last 32 are keys, too
run --serve --draft --target cpux1 -o few "$model" --dim seq=256 --workload \
	prompt=96,output=33,context=256,tokens=8,rows=4,slots=160 ||
	fail 'no program: 160 slots'
./few/rank bench --sequences 1 --prompt-tokens 96 --tokens 33 >out 2>err ||
	bad 'a program refuses the request that it was made for'
# two columns on four ranks: two have none
run --serve --draft --target cpux4 --pin tp=4 --dim ffn=2 --workload $work \
	-o uneven "$model" || fail 'no program: a rank without columns'
for ranks in one two four large uneven; do
	./$ranks/rank bench --local --sequences 3 --prompt-tokens 5 \
		--tokens 4 >out 2>err || fail "bench on $ranks"
	[ "$(sed 's/  *[0-9.][0-9.]* */ N /g' out)" = \
'sequences N at once, of N tokens and N more
first N ms (median)
prompts N ms for all, N tokens/s
each after N ms (median), N tokens/s
to the end N ms, N tokens/s' ] || bad "a measurement on $ranks"
done

./one/rank inspect >out 2>err || fail inspect
grep -qx 'full of    [1-9].* sequences*, each with [1-9].* after [0-9]*' out ||
	bad "a step that is predicted: $(cat out)"

./one/rank bench --sequences 2 --prompt-tokens 5 --tokens 1 >out 2>err ||
	fail 'bench of one token'
grep -qx 'each after none' out || bad "steps after the last: $(cat out)"
./one/rank bench --sequences 2 --prompt-tokens 5 --tokens 1 --json >out 2>err ||
	fail 'bench of one token as JSON'
is_json out
grep -q '"token_ms": null, "tokens_per_s": null' out ||
	bad "steps after the last: $(cat out)"

# The largest step has the most smaller ones beside it.
run --serve --draft --target cpux1 -o most "$model" --workload \
	prompt=8,output=4,context=16,tokens=65536,rows=4,keys=512,slots=640 ||
	fail 'no program: steps of 65536'

# Experts on two ranks, each of which tensors split once more.
sed 's/vocab = 128/vocab = 256/' "$examples/tiny-moe.llm" >moe.llm
run --target cpux1 --draft --pin microbatch=1 -o moe moe.llm &&
	run --serve --draft --target cpux4 --pin tp=2,ep=2 --workload $work \
		-o experts moe.llm || exit
./moe/rank train --data draw --steps 20 --lr 0.01 --checkpoint mck \
	>out 2>err || fail 'training experts'
./moe/rank sample --checkpoint mck --prompt abcde --tokens 10 \
	--temperature 0 >ids 2>err || fail 'sample of experts'
./experts/rank generate --local --checkpoint mck --prompt abcde \
	--tokens 10 --temperature 0 >out 2>err || fail 'generate by experts'
LC_ALL=C tr '\200-\377' '?' <ids >want
LC_ALL=C sed 's/\xef\xbf\xbd/?/g' out | cmp -s - want ||
	bad 'experts on ranks have another text'

# refuses WORDS COMMAND..
refuses()
{
	words=$1
	shift
	"$@" >out 2>err && bad "no error: $*"
	grep -qF -- "$words" err || bad "not '$words': $*"
}
refuses 'a prompt of 9 tokens, and 9 more: this program has at most 16' \
	./one/rank bench --sequences 2 --prompt-tokens 6 --tokens 6 --mixed
refuses 'mixed are of sequences' ./one/rank bench --mixed
refuses 'compiled to train' ./whole/rank generate --checkpoint ck --prompt x
refuses 'compiled to serve' ./one/rank train --data draw --steps 1
refuses 'compiled to serve' ./one/rank sample --checkpoint ck --prompt x
# before what a command lacks that the plan has not
refuses 'compiled to serve' ./one/rank eval
refuses 'compiled to train' ./whole/rank generate --prompt x
refuses 'compiled to train' ./whole/rank bench --sequences 2
refuses 'at most 16 together; --prompt-tokens and --tokens' \
	./one/rank bench --sequences 1 --tokens 4
refuses 'at most 16 together' \
	./one/rank bench --sequences 1 --tokens 1000000000000
refuses '--steps is of a bench of steps' \
	./one/rank bench --sequences 1 --steps 3
refuses '--trace is of a bench of steps' \
	./one/rank bench --sequences 1 --trace out
refuses 'give --sequences' ./one/rank bench --tokens 4
refuses 'weights to answer with' ./one/rank generate --prompt x
refuses 'nothing to continue' ./one/rank generate --checkpoint ck
refuses '20 seconds' ./one/rank serve --checkpoint ck --timeout 5
run --serve --draft --target cpux1 --workload $work --why-not tp=1 -o other \
	"$model" && [ -x other/rank ] || bad 'no program beside another answer'
for keys in 'matmul=f8e4m3:`matmul` is f8e4m3, and a program that serves' \
		'keys=100:`keys` is 100, and 128 to 16777216 is legal'; do
	refuses "${keys#*:}" "$LLMC" --serve --target cpux1 -o no "$model" \
		--workload "prompt=8,output=4,context=16,${keys%%:*}"
done
[ ! -e no ] || bad 'a folder of types that are refused'
refuses 'brings positions together' "$LLMC" --serve --target cpux1 -o no --workload $work \
	"$examples/gpt-block.llm"

# Two tables of one type: contractions sum over two dims of one, and over one
# dim of the other, so their panels differ, and so do the kernels that look up.
cat >tables.llm <<'EOF'
model tables {
  dim layers = 2, heads = 2, hd = 32, a = 16, b = 16, vocab = 256, seq = 16;
  dtype f32;

  layer block(x[batch, seq, a, b]) {
    q = linear(x -> heads, hd)                    @ "q";
    k = linear(x -> heads, hd)                    @ "k";
    v = linear(x -> heads, hd)                    @ "v";
    return x + linear(attention(q, k, v, causal) -> a, b) @ "o";
  }

  x = embed(tokens, vocab -> a, b)                @ "first";
  repeat layers as i { x = block(x)               @ "layers.{i}"; }
  y = embed(tokens, vocab -> a, b)                @ "second";
  x = rmsnorm(x, over = b) @ "norm" + rmsnorm(y, over = b) @ "other";
  each = linear(sum(x, a) -> vocab, a, tied = "second");
  logits = linear(x -> vocab, tied = "first") + sum(each, a);
  loss = cross_entropy(logits, labels);
}

train { batch = 4; optimizer = adamw(lr = 0.01); }
EOF
run --target cpux1 --draft --no-whole --pin microbatch=1 -o tables tables.llm &&
	run --serve --draft --target cpux1 --workload $work -o looks \
		tables.llm || exit
./tables/rank train --data draw --steps 4 --checkpoint tck >out 2>err ||
	fail 'training tables'
./tables/rank sample --checkpoint tck --prompt abcde --tokens 8 \
	--temperature 0 >want 2>err || fail 'sample of tables'
./looks/rank generate --checkpoint tck --prompt abcde --tokens 8 \
	--temperature 0 >out 2>err || fail 'generate by tables'
LC_ALL=C tr '\200-\377' '?' <want >ids
LC_ALL=C sed 's/\xef\xbf\xbd/?/g' out | cmp -s - ids ||
	bad 'tables of one type have another text'

# ---- serve ----

have http || exit $failed
command -v curl >/dev/null || exit $failed

# start PLAN..: a server; $url is where
start()
{
	: >said
	"$@" serve --local --checkpoint ck --port 0 >said 2>err &
	pid=$!
	waits_for tiny_dense said
	url=$(sed -n 's/^tiny_dense at \(.*\)\/v1, .*/\1/p' said)
}

# ask PROMPT FILE: eight tokens and their chances
ask()
{
	curl -sS -m 60 -H "$json" "$url/v1/completions" -d '{"prompt": "'"$1"'",
		"max_tokens": 8, "temperature": 0.7, "seed": 5,
		"logprobs": 3}' 2>err |
		sed 's/.*"choices"/choices/; s/"usage".*//' >"$2"
}

# The four ranks have sums of other orders, so other bits, and two replicas the
# same; a server's own are the same whatever is beside it.
for ranks in one two four; do
	start "./$ranks/rank"
	for prompt in abcde zy abcdefg; do
		ask $prompt "$ranks.$prompt"
		grep -q choices "$ranks.$prompt" || bad "no answer: $prompt"
	done
	asked=
	for i in 1 2 3 4; do
		for prompt in abcde zy abcdefg; do
			ask $prompt "again.$prompt.$i" &
			asked="$asked $!"
		done
	done
	# shellcheck disable=SC2086
	wait $asked
	for i in 1 2 3 4; do
		for prompt in abcde zy abcdefg; do
			cmp -s "again.$prompt.$i" "$ranks.$prompt" ||
				bad "$prompt differs among others on $ranks"
		done
	done
	kill -TERM $pid
	wait $pid || bad "the server of $ranks ended with $?"
	pid=
done
for prompt in abcde zy abcdefg; do
	cmp -s one.$prompt two.$prompt || bad "a replica differs: $prompt"
done

# Clients that ask for a model by a name of their own find it by that.
: >said
./one/rank serve --local --checkpoint ck --port 0 --model-name 'a "b"' >said \
	2>err &
pid=$!
waits_for 'a "b" at' said
url=$(sed -n 's/^.* at \(.*\)\/v1, .*/\1/p' said)
curl -sS -m 60 -H "$json" "$url/v1/completions" -d '{"prompt":"abc",
"max_tokens":1,"model":"a \"b\""}' >out 2>err
grep -qF '"model":"a \"b\""' out || bad "another name: $(cat out)"
curl -sS -m 60 -H "$json" "$url/v1/completions" -d '{"prompt":"abc",
"max_tokens":1,"model":"tiny_dense"}' >out 2>err
grep -q "no model 'tiny_dense'" out || bad "its own name: $(cat out)"
kill -TERM $pid
wait $pid || bad "the server ended with $?"
pid=
exit $failed
