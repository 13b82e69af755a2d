#!/bin/sh
# The server of requests, over HTTP: an engine without a model answers, so that
# what is wrong in a step changes tokens.
. "${top_srcdir:?}/tests/lib.sh"
fake_servers

# ask PATH BODY [OPTION..]: the reply is in $to, which is `out'.
to=out
ask()
{
	path=$1 body=$2
	shift 2
	curl -sS -m 60 -o $to -H "$json" "$@" -d "$body" "$url$path" 2>err
}

# gets STATUS WORDS PATH BODY [OPTION..]
gets()
{
	status=$1 words=$2 path=$3 body=$4
	shift 4
	code=$(ask "$path" "$body" -w '%{http_code}' "$@")
	[ "$code" = "$status" ] && grep -qF -e "$words" out ||
		bad "$path $body: $code, expected $status and $words"
}

# ---- what the pages ask ----

start_fake rows=8 tokens=16 blocks=24 keys=2048 pause=1000
for page in README.md docs/serving.md; do
	sed -n 's/^\(\$ \)*curl -H/curl -sS -m 60 -H/p' "$top_srcdir/$page" |
		sed "s|http://127.0.0.1:8000|$url|" >asked
	[ -s asked ] || bad "$page has no request"
	while read -r line; do
		echo "$line" | sh >out 2>err
		grep -q '"finish_reason":"length"' out || bad "$page: $line"
	done <asked
done
stop_server 0

# ---- what is answered ----

start_fake rows=8 tokens=16 blocks=24 keys=2048 pause=1000 in_flight=3
one='"prompt":"Once upon a time there was a","max_tokens":40,"seed":7'
ask /v1/completions "{$one}"
text_of out >whole
[ -s whole ] || bad 'no text'
ask /v1/completions "{$one,\"stream\":true}" -D headers
text_of out >parts
id=$(sed -n '1s/.*"id":"\(cmpl-[0-9a-f]*\)".*/\1/p' out)
grep -qi "^x-request-id: $id" headers || bad 'a stream has no id in its header'
cmp whole parts || bad 'a stream has another text'
tail -n 2 out | grep -qx 'data: \[DONE\]' || bad 'the stream has no end'
ask /v1/completions "{${one%7}8}" -D headers
id=$(sed -n 's/.*"id":"\(cmpl-[0-9a-f]*\)".*/\1/p' out)
grep -qi "^x-request-id: $id" headers || bad 'a reply has no id in its header'
text_of out >other
[ -s other ] || bad 'no text of another seed'
cmp -s other whole && bad 'another seed has the same text'

# What follows a schema, whole and as it comes; until then nothing ends it.
colours='{"type":"object","properties":{"colour":{"enum":["red","blue"]},
"n":{"type":"integer","minimum":0,"maximum":9}},"required":["colour","n"],
"additionalProperties":false}'
formed=$(echo "$one,\"max_tokens\":200,\"response_format\":{\"type\":
\"json_schema\",\"json_schema\":{\"name\":\"c\",\"schema\":$colours}}" |
	sed 's/"max_tokens":40,//' | tr -d '\n')
ask /v1/completions "{$formed}"
text_of out >follows
sed 's/\\u000a//g; s/[ \]//g' follows |
	grep -qxE '\{"colour":"(red|blue)","n":[0-9]\}' ||
	bad "$(cat out) does not follow the schema"
grep -q '"finish_reason":"stop"' out || bad 'what is whole has not ended'
ask /v1/completions "{$formed,\"stream\":true}"
text_of out >parts
cmp follows parts || bad 'a stream that follows a schema has another text'
gets 400 'is there twice' /v1/completions "{$formed,\"max_tokens\":3}"
gets 200 '"finish_reason":"length"' /v1/completions \
	'{"prompt":"a","max_tokens":5,"json_schema":{"minItems":9}}'
gets 200 '"content":"' /v1/chat/completions '{"messages":[{"role":"user",
"content":"a"}],"response_format":{"type":"json_object"},"max_tokens":9}'
gets 400 "#/properties/a/contains in the schema is no keyword" /v1/completions \
	'{"prompt":"a","guided_json":{"properties":{"a":{"contains":{}}}}}'
tools='"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function",
"function":{"name":"f"}}]'
gets 400 "'tools' are not known to the chat template of this model, 'none'" \
	/v1/chat/completions "{$tools}"
gets 200 '"content"' /v1/chat/completions \
	"{\"max_tokens\":3,\"tool_choice\":\"none\",$tools}"
gets 200 '"text":"AAAA"' /v1/completions '{"prompt":"a","max_tokens":4,
"logit_bias":{"65":100}}'
gets 200 '"completion_tokens":2' /v1/completions \
	'{"prompt":"a","max_tokens":40,"min_tokens":1,"stop_token_ids":[65],
"logit_bias":{"65":100}}'

# Beside others, with few blocks: the same.  How many are together is up to the
# machine, so this goes on until they were too many.
for i in $(seq 48); do
	echo "next"
	echo "url = $url/v1/completions"
	echo "header = \"$json\""
	echo "output = many.$i"
	text='Once upon a time there was a'
	[ $((i % 3)) -ne 0 ] || text="Once upon $i"
	body="\"prompt\":\"$text\",\"max_tokens\":40,\"seed\":7"
	[ $((i % 3)) -ne 1 ] || body=$formed
	printf 'data = "{%s}"\n' "$(echo "$body" | sed 's/["\]/\\&/g')"
done | sed 1d >many
for _ in 1 2 3 4 5 6 7 8; do
	curl -sS -m 100 -Z --parallel-max 48 -K many >out 2>err ||
		bad 'many at once'
	for i in $(seq 48); do
		[ $((i % 3)) -ne 1 ] || text_of "many.$i" | cmp - follows ||
			bad "request $i has another answer by its schema"
		[ $((i % 3)) -ne 2 ] || text_of "many.$i" | cmp - whole ||
			bad "request $i has another answer"
	done
	[ "$(metric preemptions_total)" -eq 0 ] || break
done
[ "$(metric preemptions_total)" -gt 0 ] || bad 'nothing was preempted'
[ "$(metric shared_positions_total)" -gt 0 ] || bad 'nothing was shared'

# A second server at its port would have half of the requests.
"$fake" "port=${url##*:}" >second 2>err && bad 'two servers at one port'
grep -q 'Address already in use' err || bad 'it is not said why'

# ---- what is refused ----

c=/v1/completions
gets 400 "no field 'promt'; the nearest is 'prompt'" $c '{"promt":"a"}'
gets 400 "'prompt' is a text" $c '{"prompt":'
gets 400 "'max_tokens' is 100000, 'prompt' has 1 token, and this model's \
maximum context length is 384: ask for 383 at most, or shorten" $c \
	'{"prompt":"a","max_tokens":100000}'
grep -q '"param":"max_tokens","code":"context_length_exceeded"' out ||
	bad "$(cat out) has no code"
gets 400 "'max_completion_tokens' is 900, 'messages' has" \
	/v1/chat/completions '{"messages":[{"role":"user","content":"a"}],
"max_completion_tokens":900}'
long=$(head -c 500 /dev/zero | tr '\0' a)
gets 400 "'prompt' has 500 tokens, and this model's maximum context length is \
384, of which an answer needs one: shorten it to 383 tokens" $c \
	"{\"prompt\":[\"a\",\"$long\"]}"
gets 404 '"code":"model_not_found"' $c '{"prompt":"a","model":"other"}'
gets 404 "no model 'other': this is fake" $c '{"prompt":"a","model":"other"}'
gets 404 "there is nothing at '/v1/embeddings': /v1/completions," \
	/v1/embeddings '{}'
gets 400 '"param":"top_p"' $c '{"prompt":"a","top_p":2}'
gets 400 '"param":null' $c '{"prompt":"a","promt":2}'
curl -sS -m 60 "$url/v1/models/fake" | grep -q '^{"id":"fake","object":"model"' ||
	bad 'no /v1/models/fake'
curl -sS -m 60 "$url/v1/models/other" | grep -q "no model 'other': this is fake" ||
	bad 'another model is there'
gets 405 'asked with GET' /health '{}'
curl -sS -m 60 -d '{}' "$url$c" | grep -q 'Content-Type: application/json' ||
	bad 'a form was taken for JSON'
head -c 5000000 /dev/zero | tr '\0' a >huge
large='the request is too large: its body may have 4194304 bytes'
gets 413 "$large" $c @huge
# also those that send all before they read an answer
gets 413 "$large" $c @huge -H 'Expect:'
gets 413 "$large" $c @huge -H 'Transfer-Encoding: chunked'
small='{"prompt":"a","max_tokens":2}'
json='Content-Type: application/jsonx'
gets 415 'a request is JSON' $c "$small"
json='Content-Type: Application/JSON; charset=utf-8'
gets 200 '"text"' $c "$small"
json='Content-Type: application/json'
gets 400 'this has several' $c "$small" -H "Content-Length: ${#small}" \
	-H 'Transfer-Encoding: chunked'
# else what is sent as a body would be a request where a proxy sees none
for header in 'Content-Length : 5' "Transfer-Encoding$(printf '\t'): chunked" \
	'A blank: 1'; do
	gets 400 "a header's name has a blank" $c "$small" -H "$header" \
		-D headers
	grep -qi '^connection: close' headers || bad "$header: goes on"
done
gets 400 'is chunked, or there is none' $c "$small" -H 'Content-Length:' \
	-H 'Transfer-Encoding: identity' -D headers
grep -qi '^connection: close' headers || bad 'another coding: goes on'
for size in 1 7 30 100 1000 20000; do
	head -c $size /dev/urandom >garbage
	gets 400 error $c @garbage
done
gets 200 '"text"' $c '{"prompt":"a","max_tokens":1}'
[ "$(metric sequences_running)" -eq 0 ] || bad 'something still runs'

# ---- logprobs of prompts ----

# list NAME: a list of the logprobs, without its brackets
list()
{
	sed 's/.*"'"$1"'":\[\([^]]*\)\].*/\1/' out
}

# What is drawn after a prompt has the logprobs that it has in a prompt.
gets 200 '"text"' $c '{"prompt":[5,6,7],"max_tokens":40,"seed":2,"logprobs":0,
	"ignore_eos":true}'
drawn=$(list token_logprobs)
gets 200 '"text"' $c '{"prompt":[5,6,7],"max_tokens":40,"seed":2,"logprobs":0,
	"ignore_eos":true,"echo":true}'
both=$(list token_logprobs)
[ "${both#null,*,*,}" = "$drawn" ] || bad 'an echo changes logprobs'
gets 200 '"completion_tokens":0' $c '{"prompt":[5,6,7],"max_tokens":0,
	"logprobs":1,"echo":true}'
[ "$(list token_logprobs)" = "${both%",$drawn"}" ] ||
	bad 'logprobs of a prompt alone are others'
gets 200 '"token_logprobs":[null],' $c '{"prompt":[5],"max_tokens":0,
	"logprobs":1,"echo":true}'
gets 200 '"logprobs":{"tokens":["a","b"' $c '{"prompt":"ab","max_tokens":1,
	"logprobs":1,"echo":true,"stream":true}'

# What a pattern has whole with nothing ends before it begins.
gets 200 '"text":"","logprobs":null,"finish_reason":"stop"' $c \
	'{"prompt":"ab","guided_regex":"a{0}"}'
gets 200 '"text":"ab","logprobs":{' $c \
	'{"prompt":"ab","guided_regex":"","echo":true,"logprobs":1}'

# ---- tokens ----

gets 200 '{"count":2,"max_model_len":' /tokenize '{"prompt":"ab"}'
most=$(sed 's/.*"max_model_len":\([0-9]*\).*/\1/' out)
gets 200 "\"completion_tokens\":$((most - 1))," $c \
	"{\"prompt\":[1],\"max_tokens\":$((most - 1)),\"ignore_eos\":true}"
gets 400 "maximum context length is $most:" $c "{\"prompt\":[1],\"max_tokens\":$most}"
gets 200 '"tokens":[97,98],"token_strs":null}' /tokenize '{"prompt":"ab"}'
gets 200 '"tokens":[7,8],' /tokenize '{"prompt":[7,8],"model":"fake"}'
gets 200 '{"prompt":"a\"b"}' /detokenize '{"model":null,"tokens":[97,34,98]}'
gets 200 '{"prompt":""}' /detokenize '{"tokens":[]}'
gets 400 "'prompt' is one text" /tokenize '{"prompt":["a","b"]}'
gets 400 "'prompt' is missing" /tokenize '{}'
gets 400 "'tokens' is missing" /detokenize '{}'
gets 400 "'tokens' has the token 256" /detokenize '{"tokens":[256]}'
gets 400 "'tokens' is there twice" /detokenize '{"tokens":[1],"tokens":[2]}'
gets 400 "no field 'token'" /detokenize '{"token":[1]}'
gets 400 'error' /detokenize '{"tokens":[-1]}'
gets 404 "no model 'x'" /tokenize '{"prompt":"a","model":"x"}'
gets 404 "no model 'x'" /detokenize '{"tokens":[1],"model":"x"}'
gets 405 'asked with POST' /tokenize '' -X GET
hi='"messages":[{"role":"user","content":"Hi"}]'
gets 200 '"count":' /tokenize "{$hi}"
count=$(sed 's/.*"count":\([0-9]*\).*/\1/' out)
gets 200 "\"prompt_tokens\":$count," /v1/chat/completions \
	"{$hi,\"max_tokens\":1}"
for size in 1 7 30 100 1000 20000; do
	head -c $size /dev/urandom >garbage
	gets 400 error /tokenize @garbage
	gets 400 error /detokenize @garbage
done

# ---- nothing leaks ----

memory()
{
	ask "$c?[1-$1]" "$small"
	ask "$c?[1-$1]" '{"prompt":"a","max_tokns":2}'
	sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' /proc/$pid/status
}
stop_server 0
start_fake
before=$(memory 300)
# with all cases ten thousand more
after=$(memory "$([ "${SLOW_TESTS-}" = 1 ] && echo 5000 || echo 1200)")
[ "$before" ] && [ "$after" ] || bad 'nobody tells how much memory it has'
# a sanitizer keeps what was freed, and tells itself of leaks as it ends
grep -q __asan_init "$fake" || [ $((after - before)) -lt 1000 ] ||
	bad "$before kB became $after kB"
stop_server 0

# ---- calls of functions: the same alone and among 64 others ----

# calls_in FILE: of a reply, without the ids that tell them from others
calls_in()
{
	sed -n 's/.*"tool_calls":\[\(.*\)\].*/\1/p' "$1" |
		sed 's/"id":"[^"]*"//g'
}

start_fake rows=70 tokens=200 chat=chatml
chat=/v1/chat/completions
paints=$(echo "\"max_tokens\":300,\"seed\":7,\"tool_choice\":\"required\",
\"parallel_tool_calls\":false,\"messages\":[{\"role\":\"user\",\"content\":
\"Paint it\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":
\"paint\",\"parameters\":$colours}}]" | tr -d '\n')
ask $chat "{$paints}"
calls_in out >called
grep -qE '"name":"paint","arguments":"\{.*colour.*(red|blue)' called ||
	bad 'no call'
grep -q '"finish_reason":"tool_calls"' out || bad 'a call is no reason to end'
for i in $(seq 65); do
	echo "next"
	echo "url = $url$chat"
	echo "header = \"$json\""
	echo "output = many.$i"
	body=$paints
	# most say something else, call by themselves, or another function
	case $((i % 4)) in
	0) body=$(echo "$paints" | sed "s/required/auto/; s/Paint it/Go $i/") ;;
	1) body=$(echo "$paints" | sed "s/paint/draw/; s/:300/:$((i + 80))/") ;;
	2) body=$(echo "$paints" | sed "s/:7,/:$i,/") ;;
	esac
	printf 'data = "{%s}"\n' "$(echo "$body" | sed 's/["\]/\\&/g')"
done | sed 1d >many
curl -sS -m 100 -Z --parallel-max 65 -K many >out 2>err || bad 'many at once'
for i in $(seq 3 4 65); do
	calls_in "many.$i" | cmp - called || bad "request $i calls otherwise"
done
[ "$(calls_in many.2)" ] || bad 'another seed calls nothing'
stop_server 0

# ---- clients that go, wait, and are too many ----

start_fake rows=1 queue=2 pause=20000 timeout=1
long='{"prompt":"a","max_tokens":2000,"stream":true,"ignore_eos":true}'
ask $c "$long" -m 0.3
becomes requests_cancelled_total 1
ask $c '{"prompt":"a","max_tokens":2000}' -m 0.3
becomes requests_cancelled_total 2
ask $c '{"prompt":"a","max_tokens":2000,"stop":["never said"],"stream":true}' \
	-m 0.3
becomes requests_cancelled_total 3
becomes sequences_running 0
# it takes longer than a connection may say nothing
gets 200 length $c '{"prompt":"a","max_tokens":75}'
# a body that does not come to its end
(printf '{"prompt":'; sleep 2.5) | curl -sS -m 60 -o out -H "$json" -X POST \
	-T - "$url$c" 2>err && bad 'half a request was waited for'
(to=gone && ask $c "$long" -m 3) &
becomes sequences_running 1
gets 400 'more than may wait' $c '{"prompt":"a","n":3}'
(to=gone && ask $c "$long" -m 3) &
becomes sequences_waiting 1
gets 429 'the queue is full' $c '{"prompt":"a","n":2}' -D headers
grep -q '"code":"rate_limit_exceeded"' out || bad 'a full queue has no code'
grep -qi '^Retry-After: 1' headers || bad 'no Retry-After'
becomes sequences_running 0

# ---- the end ----

to=last
ask $c '{"prompt":"a","max_tokens":60}' &
client=$!
becomes sequences_running 1
stop_server 0
wait $client || bad 'who was served at the end got nothing'
grep -q '"finish_reason":"length"' last || bad 'the last reply is not whole'

# What sends requests here is told to send them elsewhere, while an answer that
# has begun goes on.
start_fake pause=20000 drain=600
curl -sS -m 600 -o last -H "$json" -d '{"prompt":"a","max_tokens":2000}' \
	"$url$c" 2>gone &
client=$!
becomes sequences_running 1
curl -sS -m 60 "$url/health" | grep -q '"ok"' || bad 'no health'
kill -TERM $pid
for _ in $(seq 50); do
	code=$(curl -sS -m 60 -o out -w '%{http_code}' "$url/health" 2>err)
	[ "$code" = 200 ] || break
done
[ "$code" = 503 ] && grep -q '"ending"' out || bad "health is $code at the end"
to=out
gets 503 'the service ends' $c '{"prompt":"a","max_tokens":2}'
kill $client
stop_server 0

start_fake drain=0.2 pause=20000 in_flight=2
to=last
ask $c '{"prompt":"a","max_tokens":2000}' &
client=$!
becomes sequences_running 1
stop_server 0
wait $client
grep -q 'the service ends' last || bad 'who was cut off was not told'

to=out
start_fake fails=5 pause=20000 in_flight=2
gets 500 'the engine failed' $c '{"prompt":"a","max_tokens":60}'
stop_server 1
grep -q 'the engine failed' err || bad 'no reason'

# Logits that are no numbers end their own answer alone.
start_fake broken=97 pause=20000
to=last
ask $c '{"prompt":"b","max_tokens":60}' &
client=$!
becomes sequences_running 1
to=out
gets 500 'no finite numbers' $c '{"prompt":"a","max_tokens":2}'
gets 500 'no finite numbers' $c '{"prompt":["b","a"],"max_tokens":2}'
wait $client || bad 'an answer beside a broken one came to nothing'
grep -q '"finish_reason":"length"' last || bad 'the answer beside is cut off'
becomes sequences_running 0
stop_server 0
timeout 60 "$fake" broken=97 prompt=a >out 2>err && bad 'a broken text'
grep -q 'are no finite numbers' err || bad 'no reason'

# ---- keys ----

printf 'sesame\nmore\n' >key
start_fake key_file=key
gets 401 'Bearer KEY' $c "$small"
gets 401 '"code":"invalid_api_key"' $c "$small"
gets 401 'Bearer KEY' $c "$small" -H 'Authorization: Bearer sesamf'
gets 200 '"text"' $c "$small" -H 'Authorization: bearer sesame'
gets 200 '"text"' $c "$small" -H 'Authorization: Bearer sesame'
curl -sS -m 60 "$url/health" | grep -q ok || bad 'health asks for a key'
stop_server 0
: >key
timeout 60 "$fake" key_file=key >out 2>err && bad 'an empty key was taken'
grep -q 'the first line is to be the key' err || bad 'no reason'
timeout 60 "$fake" vocab=300 >out 2>err && bad 'no tokenizer'
grep -q 'give --tokenizer FILE' err || bad 'no reason'

# ---- a vocabulary that is larger than the tokenizer ----

start_fake tokenizer="$top_srcdir/tests/data/tokenizers/gpt2.json" vocab=400
[ -s err ] && bad 'a warning about a smaller tokenizer'
gets 200 '"completion_tokens":100' $c \
	'{"prompt":"a","max_tokens":100,"logprobs":3,"ignore_eos":true}'
gets 400 'is no token' $c '{"prompt":[390]}'
gets 200 '[\"an apple\",1]","logprobs":null,"finish_reason":"stop"' $c \
	'{"prompt":"a","max_tokens":99,"guided_json":{"const":["an apple",1]}}'
[ "$(metric 'answers_total{reason="length"}')" = 1 ] &&
	[ "$(metric 'answers_total{reason="stop"}')" = 1 ] ||
	bad 'answers are not counted by why they ended'
[ "$(metric request_seconds_count)" = 2 ] || bad 'requests take no time'
curl -sS -m 60 "$url/metrics" | grep -v '^llmc_[a-z_]*\({[a-z]*="[^"]*"}\)* [0-9.e+-]*$' |
	grep -v '^# \(HELP\|TYPE\) llmc_[a-z_]* ' && bad 'Prometheus reads no such line'
stop_server 0
start_fake tokenizer="$top_srcdir/tests/data/tokenizers/gpt2.json" vocab=256
grep -q 'warning: .*gpt2.json: the model has tokens 0 to 255, and this' err ||
	bad 'no warning of tokens that the model lacks'
stop_server 0

# ---- what is thought apart ----

# scripted WORDS MORE: a model that thinks as Qwen 3 does, of which after the
# prompt of $hi and more these words are likeliest.
hi='"messages":[{"role":"user","content":"Hi"}],"temperature":0'
scripted()
{
	start_fake chat=chatml reasoning=qwen3
	ask /tokenize "{$hi$2}"
	stop_server 0
	start_fake chat=chatml reasoning=qwen3 script="$1" \
		script_at="$(sed -n 's/^{"count":\([0-9]*\),.*/\1/p' out)"
}
chat=/v1/chat/completions
thinks='"reasoning":"Is it?","reasoning_content":"Is it?"'
colour=',"response_format":{"type":"json_schema","json_schema":{"name":"c",
"schema":{"enum":["red","blue"]}}}'
scripted '<think>
Is it?
</think>

It is.' ''
gets 200 '"content":"It is.","refusal":null,'"$thinks" $chat \
	"{$hi,\"max_tokens\":31}"
gets 200 '"content":"It is.","refusal":null}' $chat \
	"{$hi,\"max_tokens\":31,\"include_reasoning\":false}"
gets 200 '"content":null,"refusal":null,"reasoning":"Is"' $chat \
	"{$hi,\"max_tokens\":10}"
grep -q '"reasoning_tokens":10}' out || bad "no tokens of thoughts: $(cat out)"
ask $chat "{$hi,\"max_tokens\":31,\"stream\":true}"
said=$(sed -n 's/.*"content":"\([^"]*\)".*/\1/p' out | tr -d '\n')
thought=$(sed -n 's/.*"reasoning":"\([^"]*\)".*/\1/p' out | tr -d '\n')
[ "$said:$thought" = 'It is.:Is it?' ] || bad "a stream: $thought:$said"
gets 400 "'reasoning_effort' is none, minimal," $chat \
	"{$hi,\"reasoning_effort\":\"much\"}"
stop_server 0
# A schema holds for what is said, whatever the model would say.
scripted 'Is it?
</think>

It is.' "$colour"
gets 200 ',"refusal":null,'"$thinks" $chat "{$hi$colour,\"max_tokens\":99}"
grep -qE '"content":"[^"]*\\"(red|blue)\\""' out || bad "no colour: $(cat out)"
grep -q '"finish_reason":"stop"' out || bad 'a colour without an end'
stop_server 0
timeout 60 "$fake" reasoning=much >out 2>err && bad 'no such reasoning'
grep -q "no form of reasoning 'much': deepseek-r1," err || bad 'no reason'

# ---- generate ----

timeout 60 "$fake" prompt='Once upon' most=30 >out 2>err || bad generate
[ "$(wc -l <out)" -ge 1 ] || bad 'nothing was generated'
exit $failed
