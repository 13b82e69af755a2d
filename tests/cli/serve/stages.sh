#!/bin/sh
# Stages of a pipeline that work on a step each: a request is answered with the
# same tokens and chances with one step in flight or one for each stage, alone
# or among others, some of which go or are preempted, on any split; and who is
# served at the end has all of it.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
unset LLMC_API_KEY http_proxy HTTP_PROXY
work='prompt=8,output=4,context=32,tokens=4,rows=4,keys=512,slots=256'
pid=
trap '[ -z "$pid" ] || kill $pid; rm -rf "$tmp"; [ $failed -eq 0 ] || exit 1' \
	EXIT

sed 's/layers = 2/layers = 6/; s/seq = 16/seq = 32/' \
	"$examples/tiny-dense.llm" >model.llm
run --target cpux1 --draft --pin microbatch=1 -o whole model.llm &&
	./whole/rank train --data draw --steps 20 --lr 0.01 --checkpoint ck \
		>out 2>err || fail 'training'

# plan FOLDER OPTION..: a program that serves
plan()
{
	folder=$1
	shift
	run --serve --draft "$@" --workload $work -o "$folder" model.llm ||
		fail "no program: $*"
}
plan one --target cpux1
plan two --target cpux2 --pin pp=2
plan three --target cpux3 --pin pp=3
plan four --target cpux4 --pin tp=2,pp=2
plan apart --target cpux4 --pin dp=2,pp=2

# ---- generate: chunks of one prompt are in flight ----

# generate PLAN OPTION..: into out
generate()
{
	folder=$1
	shift
	"./$folder/rank" generate --local --checkpoint ck --tokens 10 \
		--prompt 'abcdefghijklmnopqrst' --temperature 0 "$@" >out \
		2>err || fail "generate on $folder $*"
}
generate one
mv out text
for ranks in two three four apart; do
	generate $ranks
	cmp -s out text || bad "$ranks have another text"
	generate $ranks --in-flight 1
	cmp -s out text || bad "$ranks have another text, one step in flight"
done
# the same as if three hosts had a rank each
ranks=
for r in 2 1 0; do
	RANK=$r WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
		MASTER_ADDR=localhost \
		MASTER_PORT=$((10000 + ($$ + 3000) % 20000)) \
		./three/rank generate --checkpoint ck --tokens 10 \
		--prompt abcdefghijklmnopqrst --temperature 0 >out.$r \
		2>err.$r &
	ranks="$ranks $!"
done
for r in $ranks; do
	wait "$r" || bad "a rank of three hosts: $(cat err.?)"
done
cmp -s out.0 text || bad 'three hosts have another text'

# Kernels of GPUs, which the host computes, as its own and by a driver.
if have compiler && fake_nvrtc; then
	LLMC_LINKER="$linker -O0 -Wl,-E" plan gpus --target h100x2 --pin pp=2
	LLMC_EMULATE_CHECK=0 generate gpus --device emulate
	cmp -s out text || bad 'GPUs have another text'
	(
		fake_gpus || fail 'no driver, or no NCCL'
		# ranks share a GPU, or have one each, and NCCL
		for devices in 1 2; do
			rm -f calls
			FAKE_LOG="$tmp/calls" FAKE_DEVICES=$devices
			export FAKE_LOG FAKE_DEVICES
			generate gpus
			cmp -s out text || bad "$devices have another text"
			[ "$(grep -c 'leaks 0' calls)" -eq 2 ] ||
				bad "$(cat calls)"
		done
		exit $failed
	) || failed=1
fi

# ---- what is refused ----

# refuses WORDS COMMAND..
refuses()
{
	words=$1
	shift
	"$@" >out 2>err && bad "no error: $*"
	grep -qF -- "$words" err || bad "not '$words': $*: $(cat err)"
}
refuses '--in-flight is 3, and 1 to 2 is legal: this plan has 2 stages' \
	./two/rank generate --local --checkpoint ck --prompt x --in-flight 3
# at once, not when weights are loaded
refuses 'rank: --in-flight is 99, and 1 to 1 is legal: this plan has 1 stage' \
	./one/rank serve --checkpoint none --in-flight 99
refuses '--in-flight is of sequences' ./two/rank bench --local --in-flight 2
refuses 'in-flight' ./two/rank generate --local --checkpoint ck --prompt x \
	--in-flight 0

# ---- bench ----

for flights in 1 2 3; do
	./three/rank bench --local --sequences 4 --prompt-tokens 5 --tokens 6 \
		--in-flight $flights >out 2>err || fail "bench of $flights"
	grep -q '^each after .* tokens/s$' out || bad "bench: $(cat out)"
done

# ---- serve ----

have http || exit $failed
command -v curl >/dev/null || exit $failed

# start PLAN OPTION..: a server; $url is where
start()
{
	folder=$1
	shift
	: >said
	"./$folder/rank" serve --local --checkpoint ck --port 0 "$@" >said \
		2>err &
	pid=$!
	waits_for tiny_dense said
	url=$(sed -n 's/^tiny_dense at \(.*\)\/v1, .*/\1/p' said)
}

# ask PROMPT FILE: tokens and their chances; after z, those of a schema
ask()
{
	form=
	[ "$1" != z ] || form=', "json_schema": {"type": "array", "items":
		{"type": "integer"}, "minItems": 1}'
	curl -sS -m 100 -H "$json" "$url/v1/completions" -d '{"prompt":
		"'"$1"'", "max_tokens": 16, "temperature": 0.7, "seed": 5,
		"logprobs": 3, "n": 4'"$form"'}' 2>err |
		sed 's/.*"choices"/choices/; s/"usage".*//' >"$2"
}

# many FILE: answers that grow together, until there are too few blocks
many()
{
	curl -sS -m 100 -H "$json" "$url/v1/completions" -d '{"prompt":
		["0bcdefgh", "1bcdefgh", "2bcdefgh", "3bcdefgh", "4bcdefgh",
		"5bcdefgh", "6bcdefgh", "7bcdefgh", "8bcdefgh", "9bcdefgh"],
		"max_tokens": 20, "seed": 5, "logprobs": 1}' 2>err |
		sed 's/.*"choices"/choices/; s/"usage".*//' >"$1"
}

prompts='abcdefghijkl zy abcdefghijklmnop z abcdefgh'
# all FILE: each alone, and then many at once
all()
{
	for prompt in $prompts; do
		ask $prompt "$1.$prompt"
		grep -q choices "$1.$prompt" || bad "no answer: $prompt"
		[ "$prompt" != z ] || grep -q '"text":"[ \\u0a]*\[' "$1.z" ||
			bad "no list: $(cat "$1.z")"
	done
	many "$1.many"
	grep -q choices "$1.many" || bad 'no answers of many'
	asked=
	many again.many &
	asked="$asked $!"
	for i in 1 2 3; do
		# one that goes before its end
		curl -sS -m 0.0$i -o gone -H "$json" "$url/v1/completions" \
			-d '{"prompt": "gone", "max_tokens": 28}' 2>err &
		for prompt in $prompts; do
			ask $prompt "again.$prompt.$i" &
			asked="$asked $!"
		done
	done
	# shellcheck disable=SC2086
	wait $asked
	for i in 1 2 3; do
		for prompt in $prompts; do
			cmp -s "again.$prompt.$i" "$1.$prompt" ||
				bad "$prompt differs among others: $1"
		done
	done
	cmp -s again.many "$1.many" || bad "many differ among others: $1"
	n=$(curl -sS -m 100 "$url/metrics" |
		sed -n 's/^llmc_preemptions_total //p')
	preempted=$((preempted + n))
	echo "$1: $n preempted"
}
preempted=0

# ends: the server does so, well
ends()
{
	kill -TERM $pid
	wait $pid || bad "the server ended with $?: $(cat err)"
	pid=
}

# Stages do not change the order of sums, so neither tokens nor chances.
for ranks in one two three apart; do
	start $ranks
	all $ranks
	[ $ranks = three ] || ends
	for prompt in $prompts many; do
		cmp -s one.$prompt $ranks.$prompt ||
			bad "$prompt differs on $ranks"
	done
	[ $ranks = three ] || continue
	# who is served when the end is asked for has all of it
	asked=
	for prompt in $prompts; do
		ask $prompt last.$prompt &
		asked="$asked $!"
	done
	ends
	# shellcheck disable=SC2086
	wait $asked
	for prompt in $prompts; do
		# or it came after the end
		[ ! -s last.$prompt ] ||
			! grep -q '^choices' last.$prompt ||
			cmp -s one.$prompt last.$prompt ||
			bad "$prompt was cut off"
	done
done
for flights in 1 2; do
	for sharing in '' --no-sharing; do
		# shellcheck disable=SC2086
		start four --in-flight $flights $sharing
		all four$flights$sharing
		ends
		for prompt in $prompts many; do
			cmp -s four1.$prompt four$flights$sharing.$prompt ||
				bad "$prompt: $flights in flight $sharing"
		done
	done
done
[ $preempted -gt 0 ] || bad 'nothing was preempted'
exit $failed
