#!/bin/sh
# --serve: what it reads, what it prints, and what it refuses.
. "${top_srcdir:?}/tests/lib.sh"

# figure KEY: of the best plan in out
figure()
{
	sed -n '/"best"/,/"curve"/s/.*"'"$1"'": \([-0-9.e+]*\).*/\1/p' out |
		head -1
}

# above A B WHAT
above()
{
	awk -v a="$1" -v b="$2" 'BEGIN { exit a != "" && a > b ? 0 : 1 }' ||
		bad "$3: $1 is not above $2"
}

# says WORDS: exit status 1, and an error that has them
says()
{
	words=$1
	shift
	"$LLMC" "$@" >out 2>err
	[ $? -eq 1 ] && [ ! -s out ] || bad "no error: $*"
	grep -qF -- "$words" err || bad "not $words: $*"
}

llama=$examples/llama-3-8b.llm
serve="--serve --emit=serve-json --target h100x2"

# A model that says how large a step is can be trained all the same.
{ cat "$examples/tiny-dense.llm" && echo 'serve { tokens = 8; rows = 4; }'; } >both.llm
run --target cpux1 both.llm || exit

# A prompt that is shorter than the least chunk is read in one.
# shellcheck disable=SC2086
run $serve --workload prompt=16,output=100,sequences=1 "$llama" || exit
above "$(figure tokens_s)" 0 'short prompts'

# A model without a loss and train has the same answer.
sed '/loss = /d; /^train {/,/^}/d' "$llama" >bare.llm
# shellcheck disable=SC2086
{
	run $serve "$llama" || exit
	mv out whole
	run $serve bare.llm || exit
	cmp -s out whole || bad 'a loss changes the answer'
	run $serve --no-memo "$llama" || exit
	cmp -s out whole || bad 'the memo changes the answer'
}

# Without -o nothing is known of the program that needs it.
run --serve --target h100x2 "$llama" || exit
grep -q '^memory .*, workspace about [0-9.]*, cache' out ||
	bad 'a workspace that is an estimate'

# The cache of a token: 32 layers of 2 x 8 heads of 128, in 16 or 8 bits, and
# a program's slots have what windows no longer see.
for what in 'bf16 131072' 'f8e4m3 65536'; do
	run --serve --emit=serve-json --target h100 --workload \
		"cache=${what% *}" "$llama" || exit
	[ "$(figure token_bytes)" = "${what#* }" ] || bad "cache of $what"
done
sed 's/, v, causal)/, v, causal, window = 640)/' "$llama" >window.llm
run --serve --emit=serve-json --target h100 window.llm || exit
[ "$(figure token_bytes)" = 131072 ] || bad 'cache of a window'

# Latents: 61 layers of 576 numbers on each rank, whatever tp is.
run --serve --emit=serve-json --target h100x8x2 --pin tp=16 --workload \
	weights=f8e4m3 "$examples/deepseek-v3.llm" || exit
[ "$(figure token_bytes)" = 70272 ] || bad 'cache of latents'

# The rank programs that -o would compile, of the largest step, as text that is
# read again.
work=tokens=8,rows=4,keys=256,slots=384,prompt=8,output=4
tiny="--serve --emit=ranks --target cpux4 --pin tp=2,pp=2 $examples/tiny-dense.llm"
# shellcheck disable=SC2086
{
	run $tiny --workload $work -o ranks.ir || exit
	[ ! -s out ] || bad 'an answer beside rank programs'
	run opt --passes=check --emit=ranks ranks.ir || exit
	cmp -s out ranks.ir || bad 'rank programs are read as others'
	run $tiny --workload $work,weights=int8 || exit
	grep -q ' = scales ' out || bad 'weights are not rounded'
}
for line in 'dim step = 8' 'dim rows = 4' 'dim keys = 256' 'dim slots = 384' \
	'axis tp = 2' 'layer stage1_forward() {'; do
	grep -qxF "$line" ranks.ir || bad "no $line"
done
[ "$(grep -c ' = append .* of=slots' ranks.ir)" -eq 4 ] || bad 'no caches'

# Narrower weights are read sooner, and leave more room.
last=0
for format in bf16 int8 int4; do
	run --serve --emit=serve-json --target h100 --workload \
		"weights=$format,sequences=1" "$llama" || exit
	above "$(figure cache_tokens)" "$last" "room beside $format"
	last=$(figure cache_tokens)
	us=$(figure alone_tpot_us)
	[ "$format" = bf16 ] || above "$before" "$us" "a step of $format"
	before=$us
done

# A limit is kept, a rate is met, and a pin is obeyed.
run --serve --emit=serve-json --target h100x8 --workload tpot=0.01 "$llama" ||
	exit
above 10000 "$(figure tpot_us)" 'the limit of tpot'
run --serve --emit=serve-json --target h100x8 --workload rate=20 "$llama" ||
	exit
above "$(figure requests_s)" 19.97 'the rate'
run --serve --emit=serve-json --target h100x8 --pin tp=2,pp=2,dp=1 "$llama" ||
	exit
[ "$(figure tp) $(figure pp) $(figure replicas)" = '2 2 1' ] || bad 'pins'

# Other keys beside the best: no more tokens of a device, the parts of a token
# are all of it, and pins hold on both sides.
run --serve --target h100x8 --why-not tp=8 "$llama" || exit
awk '/^why not tp=8[?]/ { on = 1 }
	on && /^a token, us/ { whole = $(NF - 2) }
	on && /^  / && !/more$/ && NF > 3 { sum += $(NF - 2) }
	/^tokens.s of a device/ { less = $(NF - 1) }
	END { exit !(whole > 0) || sum - whole > 0.01 || whole - sum > 0.01 || less > 0 }' \
	out || bad 'parts of a token'
run --serve --emit=serve-json --target h100x8 --why-not tp=8 "$llama" || exit
grep -q '"why_not": {"keys": "tp=8", "best": {"tp": 8, "pp": 1,' out ||
	bad 'the other plan as JSON'
run --serve --target h100x8 --pin dp=2 --why-not tp=2 "$llama" || exit
grep -q '^split .*dp=2 *tp=2.*dp=2$' out || bad 'a pin on both sides'
run --serve --target rtx4090x8 --why-not tp=1,pp=1 \
	"$examples/llama-2-70b.llm" || exit
sed -n '/^why not/,$p' out | grep -q '^nothing fits: a device has 23.10 GB' ||
	bad 'keys that do not fit'
says 'a plan has no `tq` (did you mean `tp`?)' --serve --target h100x8 \
	--why-not tq=8 "$llama"
says 'serving has no `zero`' --serve --target h100x8 --why-not zero=1 "$llama"

# Half of the requests wait less than 99 of 100 do, and no less than alone.
run --serve --emit=serve-json --target h100x8 --workload rate=150 "$llama" ||
	exit
above "$(figure ttft_p50_us)" "$(figure alone_ttft_us)" 'a wait in a queue'
above "$(figure ttft_p99_us)" "$(figure ttft_p50_us)" 'the longest waits'
above "$(figure tpot_p99_us)" "$(figure tpot_p50_us)" 'the slowest answers'
p50=$(figure ttft_p50_us)
run --serve --emit=serve-json --target h100x8 --workload rate=20 "$llama" ||
	exit
above "$p50" "$(figure ttft_p50_us)" 'a longer queue'

# What does not fit says what binds, and its change helps.
says 'fits rtx4090x2: a device has 23.10 GB, and needs 4' --serve \
	--target rtx4090x2 "$examples/llama-2-70b.llm"
grep -q 'note: one fits on 8 such devices' err || bad 'no advice'
says 'note: tp=8 of --why-not fits: tp=8' --serve --target rtx4090x8 --pin \
	tp=1,pp=1 --why-not tp=8 "$examples/llama-2-70b.llm"
says 'no plan that serves fits' --serve --target h100x8 --workload rate=1e6 \
	"$llama"
rate=$(sed -n 's/^.* one fits with rate = //p' err)
run --serve --emit=serve-json --target h100x8 --workload "rate=$rate" \
	"$llama" || exit
above "$(figure requests_s)" 1 'the rate that is advised'

# Ranks along ep: without a program each has sequences of its own, with one all
# have the same, and the cache of a replica is what one rank has.
sed 's/vocab = 128/vocab = 256/' "$examples/tiny-moe.llm" >moe.llm
moe="--serve --emit=serve-json --target cpux4 --pin tp=1,ep=4"
work=prompt=8,output=4,context=16,sequences=64
# shellcheck disable=SC2086
run $moe --workload $work moe.llm || exit
grep -q '"replicas": 1, "ep_shares_sequences": false' out || bad 'own sequences'
own=$(figure cache_tokens)
read=$(sed -n 's/.*"decode": .*"cache_us": \([-0-9.e+]*\).*/\1/p' out | head -1)
run --serve --target cpux4 --pin tp=1,ep=4 --workload $work moe.llm || exit
grep -q 'along ep have sequences of their own; in a program of -o$' out ||
	bad 'which sequences are priced'
run --serve --target cpux4 --pin tp=1,ep=4 --workload $work --draft \
	-o served moe.llm || exit
grep -q 'ranks along ep have the same sequences' out ||
	bad 'which sequences a program has'
cp served/plan.json out
grep -q '"replicas": 1, "ep_shares_sequences": true' out || bad 'the same'
awk -v a="$own" -v b="$(figure cache_tokens)" 'BEGIN { r = a / 4 / b
	exit r < 1.01 && r > 0.99 ? 0 : 1 }' ||
	bad 'the cache of ranks with the same sequences'
all=$(sed -n 's/.*"decode": .*"cache_us": \([-0-9.e+]*\).*/\1/p' out | head -1)
above "$all" "$(awk "BEGIN { print 3.9 * $read }")" 'what each of them reads'

# The host's memory is in the answer, and an answer that needs more than hosts
# have says which sizes would fit, and they do.
run --serve --emit=serve-json --target h100x8 "$llama" || exit
for part in queues steps index client; do
	above "$(sed -n 's/.*"host": .*"'$part'_bytes": \([0-9.e+]*\).*/\1/p' \
		out)" 1000 "the host's $part"
done
echo 'target { accelerator = h100; devices = 8; host_memory = 0.005; }' \
	>small.target
says 'a host has 0.040 GB, and that of rank 0 needs' --serve \
	--target small.target "$llama"
sizes=$(sed -n 's/^.*note: one fits with //p' err)
[ "$sizes" ] || bad "no sizes that fit: $(cat err)"
run --serve --target small.target --workload "$sizes" "$llama" ||
	bad 'the sizes that are advised'
says '`slots` = 20000000' --serve --target small.target --workload \
	rows=1,slots=20000000 "$llama"
grep -q '^--workload:1:14: error: no plan that serves fits' err ||
	bad 'where slots are said'

# Sizes of a step that could answer no such request, or that none can have, are
# told at once, and not when the program begins.
for sizes in rows=9,tokens=8 rows=65 keys=128 slots=128; do
	key=${sizes%%=*}
	refused "--workload:1:$((${#key} + 22)): error: \`$key\` is " --serve \
		--target h100 --workload "prompt=96,output=33,$sizes" "$llama"
done
run --serve --target h100 --workload \
	prompt=96,output=32,rows=8,tokens=8,keys=128,slots=144 "$llama" ||
	bad 'the least sizes'

# A step of the program is of its parts, and no less than its weights take.
run --serve --emit=serve-json --target h100 --workload sequences=1 "$llama" ||
	exit
above "$(figure alone_tpot_us)" 4700 '16 GB at 3.35 TB/s'

# Published measurements: some rows of a larger table, as they are there.
run validate "$tests/data/serve.tsv" || exit
awk '/^by kind/ { kinds = 1 }
	kinds && / tpot$/ { sub("%", "", $2); found = 1; exit !($2 + 0 < 12) }
	END { if (!found) exit 1 }' out || bad 'the time for a token'
awk '/^by kind/ { kinds = 1 }
	kinds && / batch$/ { sub("%", "", $2); found = 1; exit !($2 + 0 < 8) }
	END { if (!found) exit 1 }' out || bad 'the time of a batch'
# Rows that nothing was chosen or fitted by: other splits and models of the page
# that serve.tsv has batches of.
run validate "$tests/data/serve-more.tsv" || exit
awk '/^by kind/ { kinds = 1 }
	kinds && / batch$/ { sub("%", "", $2); found = 1
		exit !($1 == 130 && $2 + 0 < 14) }
	END { if (!found) exit 1 }' out || bad 'the time of other batches'
for split in 2 8; do
	awk -F '\t' -v tp=$split 'NR == 1 || $2 == "GPT-20B" && $6 == tp' \
		"$tests/data/serve-more.tsv" >one.tsv
	run validate one.tsv || exit
	awk '/^by kind/ { kinds = 1 }
		kinds && / batch$/ { sub("%", "", $2); exit !($2 + 0 < 12) }' \
		out || bad "batches on $split cards"
done
# A page that nothing was chosen by: models by other spellings of their names.
run validate "$tests/data/serve-named.tsv" || exit
grep -q ' not: no ' out && bad 'a name that is not known'
awk '/^by kind/ { kinds = 1 }
	kinds && / batch$/ { sub("%", "", $2); found = 1; exit !($2 + 0 < 7) }
	END { if (!found) exit 1 }' out || bad 'batches of models by their names'
# the same by the words of other tables: no word that is known changes a price
run validate --rows "$tests/data/serve-named.tsv" || exit
awk '$NF == "batch" { print $3 }' out >prices
for change in 's/	A100-80GB	/	NVIDIA A100-SXM4-80GB	/' \
	's/	fp16	/	FP16	/' 's/	fp16	/	float16	/' \
	's/	llama2-/	Llama-2-/'; do
	sed "$change" "$tests/data/serve-named.tsv" >other.tsv
	run validate --rows other.tsv || exit
	awk '$NF == "batch" { print $3 }' out | cmp -s - prices ||
		bad "$change is another line"
done
sed 's/GPTJ 6B/GPTK 6B/' "$tests/data/serve.tsv" >unknown.tsv
run validate unknown.tsv || exit
grep -q 'not: no shape of GPTK 6B is known' out || bad 'a model of no shape'
# Where a device does not multiply 4 bits, kernels widen them: tokens are
# quicker than by matrices of 16 bits, long prompts are not, and a note says so.
awk -F '\t' -v OFS='\t' 'NR > 1 && !(/gpt-oss/ && /\th200_sxm\t/) { next }
	NR > 1 { $11 = 32768 }
	{ print }
	$9 == "fp4" { $9 = "bf16"; print }' "$tests/data/serve.tsv" >both.tsv
run validate --rows both.tsv || exit
awk '/gpt-oss/ { us[/ fp4,/ ? "fp4" : "bf16", $NF] += $3 }
	/^ *note: weights of 4 bits are widened/ { notes++ }
	/ with a note: weights of 4 bits/ { said = $1 }
	END { exit !(us["fp4", "tpot"] > 0 && notes > 0 && notes == said &&
		1.1 * us["fp4", "tpot"] < us["bf16", "tpot"] &&
		us["fp4", "ttft"] > us["bf16", "ttft"]) }' out ||
	bad 'weights of 4 bits that are widened'
run validate --rows --json both.tsv || exit
test "$(grep -c '"note": "weights of 4 bits' out)" -ge 1 ||
	bad 'no note in JSON'
sed -n '1p;/2000 requests/{s//0 requests/p;q;}' "$tests/data/serve.tsv" \
	>none.tsv
run validate none.tsv || exit
grep -q 'not: it does not say how many requests' out || bad 'a run of none'
# One run that two tables have, one of which multiplies what divides its ranks:
# 8 cards, of which each has 16 of 128 requests.
for id in s1141 s1880; do
	sed -n "1p;/^$id	/p" "$tests/data/serve.tsv" >one.tsv
	run validate --rows one.tsv || exit
	awk '/: tpot$/ { print $2, $3 }' out
done | uniq -c | awk '{ n = $1 } END { exit !(NR == 1 && n == 2) }' || bad 'the ranks of a run'
# instead ID WHAT LESS MORE FACTOR [FIGURE]: with MORE in place of WHAT the line's
# time for a token, or FIGURE, is predicted at least FACTOR times what it is with
# LESS
instead()
{
	for by in "$3" "$4"; do
		sed -n "1p;/^$1	/p" "$tests/data/serve.tsv" |
			sed "2s/$2/$by/g" >one.tsv
		run validate --rows one.tsv || exit
		awk -v of=": ${6:-tpot}$" '$0 ~ of { print $3 }' out
	done | awk -v f="$5" '{ t[NR] = $1 }
		END { exit !(t[1] > 0 && t[2] > f * t[1]) }' ||
		bad "$1: $4, and not $3"
}

# Tokens that are guessed, caches in 8 bits, prompts that other ranks read, tiles
# of all experts, ranks that only the experts' columns tell, and ranks that wait
# for each other's prompts.
instead s1141 rc6.post3 rc6.post3 rc6.post2 1.3
instead s1100 'vllm 0.15' 'vllm 0.15' 'vllm 0.14' 1.02
instead s1210 '	72	' '	72	' '	68	' 1.3
instead s0968 'vllm 0.12' 'vllm 0.13' 'vllm 0.12' 1.3
instead s0980 moe_tp=2 moe_tp=4 moe_tp=2 1.3
instead s1141 b200_sxm b300_sxm b200_sxm 4 ttft
# Prompts in 4 bits, at their own rate, and operands that are brought to those by
# kernels of their own.
instead s0143 fp4 fp4 fp8 1.4 throughput
instead s0143 'LLM v1.0' 'LLM v0.9' 'LLM v1.0' 1.03 throughput
# Hosts that call for each collective, and scores that one block sorts.
instead s0380 FasterTransformer Ft FasterTransformer 1.2 batch
instead s0360 'top_p=0.9' greedy 'top_p=0.9' 1.01 batch
# Rates of a device, where a table has those, are of all of them here.
sed -n '1p;/^s0223	/p' "$tests/data/serve.tsv" >one.tsv
run validate --rows one.tsv || exit
grep -q ' 188\.2 ' out || bad 'the rate of two devices'
# Shapes that a line notes need no table.
sed -n '1p;/^s0310	/p' "$tests/data/serve.tsv" |
	sed 's/GPT-[0-9A-Z.]*/GPT-noted/' >one.tsv
run validate --rows one.tsv || exit
grep -q 'GPT-noted fp16.*: batch$' out || bad 'a shape that is noted'
sed -i 's/layers=/depth=/' one.tsv
run validate one.tsv || exit
grep -q 'not: no shape of GPT-noted is known' out || bad 'no shape'
cut -f1-12,14- "$tests/data/serve.tsv" >cut.tsv
says '`batch_or_concurrency`' validate cut.tsv

# One sequence with one kv head: of a few keys one core has all, so more cores
# do not help; of many keys each has a part.
cat >mqa.llm <<'end'
model m { dim seq = 65536, hidden = 1024, heads = 8, kv = 1, hd = 128;
dim vocab = 256; x = embed(tokens, vocab -> hidden) @ "e";
repeat 2 as i { x = x + linear(attention(
linear(x -> heads, hd) @ "q{i}", linear(x -> kv, hd) @ "k{i}",
linear(x -> kv, hd) @ "v{i}", causal) -> hidden) @ "o{i}"; }
logits = linear(x -> vocab) @ "h"; }
end
for cores in 1 4; do
	sed "s/units = 1;/units = $cores;/; s/target cpu /target cores /
		s/measured = .*/measured = all;/; /borrowed/d
		s/memory = 4;/memory = 64;/" \
		"$top_srcdir/targets/cpu.target" >cores.target
	for prompt in 256 60000; do
		run --serve --emit=serve-json --target cores.target \
			--pin dp=1 --workload \
			"prompt=$prompt,output=16,context=65000,sequences=1" \
			mqa.llm || exit
		figure attention_us >"attention.$prompt.$cores"
	done
done
above "$(cat attention.256.4)" "$(cat attention.256.1)" 'one core has all keys'
cmp -s attention.60000.4 attention.60000.1 || bad 'parts are not evenly many'

# Models of other shapes: without layers, and with repeats in repeats.
cat >flat.llm <<'end'
model m { dim seq = 64, hidden = 8, vocab = 16;
x = embed(tokens, vocab -> hidden) @ "e"; logits = linear(x -> vocab) @ "h"; }
end
cat >nested.llm <<'end'
model m { dim seq = 64, hidden = 8, heads = 2, hd = 4, vocab = 16;
x = embed(tokens, vocab -> hidden) @ "e";
repeat 3 as i { repeat 2 as j { x = x + linear(attention(
linear(x -> heads, hd) @ "q{i}.{j}", linear(x -> heads, hd) @ "k{i}.{j}",
linear(x -> heads, hd) @ "v{i}.{j}", causal) -> hidden) @ "o{i}.{j}"; }
x = silu(x); }
logits = linear(x -> vocab) @ "h"; }
end
run --serve --target cpux4 flat.llm || exit
run --serve --target cpux1 flat.llm || exit
grep -q 'cannot be served: no attention .*-Wunserved' err ||
	bad "a model without attention: $(cat err)"
grep -qx 'target     cpux1: 1 device in 1 node' out || bad 'one of several'
grep -qx 'm: 256 parameters' out || bad 'a small model in billions'
run --serve --emit=serve-json --target h100 nested.llm || exit
[ "$(figure token_bytes)" = $((3 * 2 * 2 * 8 * 4)) ] || bad 'nested caches'
says 'brings positions together' --serve --target h100 \
	"$examples/gpt-block.llm"
says 'note: one fits with chunk = 4' --serve --target h100 --workload chunk=1 \
	"$llama"

# Wrong words.
says '`prompt` is 0, and 1 to 10000000 is legal' --serve --target h100 \
	--workload prompt=0 "$llama"
says 'longer than the longest sequence, which has 8192' --serve \
	--target h100 --workload prompt=8000 "$llama"
says 'note: --workload takes KEY=VALUE,.., such as prompt=1024,output=256' \
	--serve --target h100 --workload weights "$llama"
says 'a longer model is --dim seq=9000' --serve --target h100 \
	--workload context=9000 "$llama"
says '--workload:1:9: error: a request of 1024 tokens in and 256 out is longer' \
	--serve --target h100 --workload context=900 "$llama"
says '--serve needs the machine that serves' --serve "$llama"
says '--explain is about training' --serve --target h100 --explain=cost \
	"$llama"
says '--workload is about requests' --workload prompt=4 --target h100 "$llama"
says 'serving has no `zero`' --serve --target h100 --pin zero=1 "$llama"
says 'its own answer: with it --emit is serve, serve-json or ranks' --serve \
	--emit=answer --target h100 "$llama"
says '--why-not adds to the answer' --serve --emit=ranks --why-not tp=1 \
	--target h100 "$llama"
says '--workload:1:8: error: `matmul` is f8e4m3' --serve --emit=ranks \
	--workload matmul=f8e4m3 --target h100 "$llama"
says 'no plan that serves fits rtx4090x2' --serve --emit=ranks \
	--target rtx4090x2 "$examples/llama-2-70b.llm"
echo 'target { accelerator = h100; devices = 8; }
target { accelerator = a100; devices = 8; }' >two.target
says 'on one kind of node' --serve --target two.target "$llama"
sed '/logits = /d; s/(logits, labels)/(linear(x -> vocab), labels)/' \
	"$llama" >nameless.llm
says 'no value of the model is named `logits`' --serve --target h100 \
	-Wno-unnamed-weight nameless.llm
# More replicas than there are devices for are no fewer replicas.
# shellcheck disable=SC2086
says 'tp=1 pp=1 ep=1 dp=16 are 16 ranks, and the target has' $serve --pin dp=16 \
	"$llama"
# shellcheck disable=SC2086
says 'tp = 3 does not divide the 32 heads of attention' $serve --pin tp=3 \
	"$llama"
# shellcheck disable=SC2086
says 'ep = 2 splits experts, and the model has none' $serve --pin ep=2 "$llama"
# shellcheck disable=SC2086
says "pp = 100 is more than the 32 iterations of the model's repeats" $serve \
	--pin pp=100 "$llama"
attention_model once
says 'pp = 2 divides layers of a repeat, and the model has none' --serve \
	--target h100x2 --pin pp=2 once.llm

# What is advised where limits cannot be kept together, keeps them.
says 'no plan that serves fits' --serve --target h100x2 --workload \
	ttft=0.001,tpot=0.001 "$llama"
advice=$(sed -n 's/^.* one fits with //p' err | tr -d ' ')
[ "$advice" ] || bad 'no advice about limits'
run --serve --target h100x2 --workload "$advice" "$llama"
# ---- a price without a program ----

cat >packed.llm <<'end'
model m { dim seq = 64, hidden = 8, heads = 2, hd = 4, vocab = 16;
input document_first: f32[batch, seq]; input document_last: f32[batch, seq];
x = embed(tokens, vocab -> hidden) @ "e";
a = attention_between(linear(x -> heads, hd) @ "q", linear(x -> heads, hd) @ "k",
linear(x -> heads, hd) @ "v", document_first, document_last, causal);
logits = linear(a -> vocab) @ "h"; }
end
refused '`document_first` cannot be served: a request is one document, and' \
	--serve --target cpux1 -o none packed.llm
refused 'cannot be served: no attention' --serve --target cpux1 -o none flat.llm
[ ! -e none ] || bad 'a folder beside an error'
# After the layers: positions, and tokens once more.
cat >late.llm <<'end'
model m { dim seq = 64, hidden = 8, heads = 2, hd = 4, vocab = 16;
x = embed(tokens, vocab -> hidden) @ "e"; p = weight(seq, hidden) @ "p";
repeat 2 as i { x = x + linear(attention(linear(x -> heads, hd) @ "q{i}",
linear(x -> heads, hd) @ "k{i}", linear(x -> heads, hd) @ "v{i}",
causal) -> hidden) @ "o{i}"; }
x = rope(x) + p + embed(tokens, vocab -> hidden) @ "f";
logits = linear(x -> vocab) @ "h"; }
end
run --serve --target cpux1 late.llm
[ ! -s err ] || bad "what is after the layers: $(cat err)"
run --serve --target cpux1 "$examples/tiny-dense.llm"
[ ! -s err ] || bad "a warning: $(cat err)"

# Numbers have digits that say something, and no exponents.
run --serve --target h100 --price 1e6 --workload \
	prompt=10,output=8000,rate=0.003,ttft=10 "$llama"
grep -qx 'asked      first token in 10000 ms, 0.003 requests/s' out &&
	grep -q '; 0\.0030 requests/s$' out &&
	grep -q ' 0\.0[0-9]* tokens out for a dollar$' out ||
	bad "small rates: $(cat out)"
grep -q '[0-9]e[+-][0-9]' out && bad "an exponent: $(cat out)"
# A machine without a price is not said to be free.
run --serve --target cpux1 "$examples/tiny-dense.llm"
grep -q '^cost       not known' out && grep -q ' -  tp=1$' out ||
	bad "no price: $(cat out)"
exit $failed
