# shellcheck shell=sh
# What tests of commands share. Each begins with
#	. "${top_srcdir:?}/tests/lib.sh"
# and is in an empty folder then, $tmp, which is gone at its end; that is
#	exit $failed
# LLMC is the program and top_srcdir the sources, both absolute. A user has
# fewer cases by SLOW_TESTS=skip, and skips what runs plans by BINARY_TESTS=skip.
# Functions leave outputs in the files `out' and `err'; some set `wanted' and
# `words'.
# shellcheck disable=SC2034 # not everything is of use to everyone
set -u
tests=${top_srcdir:?}/tests
examples=$top_srcdir/examples
build=${LLMC%/*}
linker=${LLMC_LINKER:-${CC:-cc}}
# Emulated kernels run once or twice, and take longer to compile well than to
# run; to link, it makes no difference.
export LLMC_LINKER="$linker -O0"
limit=3600	# seconds, of one run of llmc; of how many it computes: ulimit -t
failed=0
cases=0	# that asked `today'
tmp=$(mktemp -d) || exit 99
trap 'chmod -R u+rwX "$tmp"; rm -rf "$tmp"; [ $failed -eq 0 ] || exit 1' EXIT
trap 'exit 99' HUP INT TERM
cd "$tmp" || exit 99
exec </dev/null
# as if no launcher had started this
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
unset SLURM_PROCID SLURM_JOB_ID LLMC_TRANSPORT LLMC_RENDEZVOUS
unset LLMC_SECRET LLMC_SECRET_FILE LLMC_MESSAGE_SUMS
# Jobs of this test are no other's, whatever numbers they share: ranks that
# meet at a port that another test has, too, know that those are others.
export TORCHELASTIC_RUN_ID="${tmp##*/}"

# ---- what is wrong, and what is missing ----

# bad WORDS..: says them and what was written last; the test goes on, and will
# have failed. It is false, for `run .. || return'.
bad()
{
	echo "FAIL $*"
	(cd "$tmp" && head -c 4000 out err 2>/dev/null)
	failed=1
	return 1
}

# fail WORDS..: the same, and the test ends.
fail()
{
	bad "$@"
	exit 1
}

# have WHAT..: are all of these there? `time', `binaries' and `attacks' (the
# long part of tests/attack) the user grants.
have()
{
	for thing; do
		case $thing in
		llvm) "$LLMC" --version | grep -q '^cpu: LLVM' ;;
		nvrtc) "$LLMC" --version | grep -q '^cuda: NVRTC' ;;
		http) grep -q '^#define HAVE_MICROHTTPD 1' "$build/config.h" ;;
		linker) $linker --version >/dev/null 2>&1 ;;
		compiler) echo 'int x;' >x.c && shared x.so x.c ;;
		time) [ "${SLOW_TESTS-}" != skip ] ;;
		binaries) [ "${BINARY_TESTS-}" != skip ] ;;
		attacks) [ "${ATTACKS-}" = all ] ;;
		*) fail "have $thing" ;;
		esac || return
	done
}

# skip WHY..: the test ends, skipped.
skip()
{
	echo "skipped: $*"
	exit 77
}

# need WHAT..: it is skipped unless it has all of these.
need()
{
	have "$@" || skip "no $thing"
}

# today DAYS: whether the next case, of those that ask, is one of today's: each is
# on one of so many days. On a day without any, there is enough that does not ask.
# SLOW_TESTS=1 has all cases, and TESTS_DAY=N is another day. Nobody goes on
# counting what a subshell asks.
today()
{
	cases=$((cases + 1))
	[ "${SLOW_TESTS-}" != 1 ] || return 0
	if [ -z "${TESTS_DAY-}" ]; then
		TESTS_DAY=$(($(date +%s) / 86400))
		echo "TESTS_DAY=$TESTS_DAY"
	fi
	[ $(((cases + TESTS_DAY) % $1)) -eq 0 ]
}

# ---- llmc ----

# run ARGUMENTS..: llmc does what it is asked for.
run()
{
	timeout $limit "$LLMC" "$@" >out 2>err || bad "llmc $*: exit status $?"
}

# ends STATUS WORDS ARGUMENTS..: llmc does, prints nothing and says WORDS.
ends()
{
	wanted=$1 words=$2
	shift 2
	timeout $limit "$LLMC" "$@" >out 2>err
	set -- $? "$*"
	[ "$1" -eq "$wanted" ] && [ ! -s out ] && grep -qF -e "$words" err ||
		bad "llmc $2: exit status $1; expected: $wanted, and: $words"
}

# refused WORDS ARGUMENTS..: the input is at fault.
refused()
{
	ends 1 "$@"
}

# misused WORDS ARGUMENTS..: the command line is.
misused()
{
	ends 2 "$@"
}

# cheaply COMMAND..: in 20 s of the processor, ten times what a refusal may take,
# and in 500 MB.  What else the machine does counts for nothing.  Sanitizers
# make programs slower and larger: with them it is 100 s, and no limit of memory.
cheaply()
{
	(
		if grep -q __asan_init "$LLMC"; then
			ulimit -S -t 100
		else
			ulimit -S -t 20
			ulimit -S -v 500000
		fi
		"$@"
		exit $failed
	) || failed=1
}

# ---- what llmc and plans write ----

# step_of [FILE]: of an answer, in ms.
step_of()
{
	sed -n 's/^step *\([0-9.]*\) ms.*/\1/p' "$@"
}

# field FILE KEY: the first number of that name in JSON.
field()
{
	sed -n "s/.*\"$2\": *\\([0-9.e+-]*\\).*/\\1/p" "$1" | head -n 1
}

# plan_texts FILE: the plans of --emit=plans-json, a line each, for printf %b.
plan_texts()
{
	sed -n 's/^      "plan": "\(.*\)" }.*/\1/p' "$1" | sed 's/\\"/"/g'
}

# saved ARGUMENTS..: the bytes that repeats keep for backward.
saved()
{
	"$LLMC" --passes=train --verify-each --emit=summary-json "$@" >out 2>err
	field out saved_bytes
}

# losses_in LOG: of each step of a run.
losses_in()
{
	sed -n 's/^{"step": [0-9]*, "loss": \([^,]*\).*/\1/p' "$1"
}

# waits_for TEXT FILE: up to two minutes, until a line there begins with it.
waits_for()
{
	for _ in $(seq 1200); do
		! grep -q "^$1" "$2" 2>/dev/null || return 0
		sleep 0.1
	done
	bad "nothing in $2 begins with $1"
}

now_ms()
{
	echo $(($(date +%s%N) / 1000000))
}

# draw_below N: sets $drawn to a number from 0 on, of what $seed begins
draw_below()
{
	seed=$(((seed * 1103515245 + 12345) & 2147483647))
	drawn=$((seed / 65536 % $1))
}

# same_folders ONE OTHER: names and bytes.
same_folders()
{
	diff -r "$1" "$2" >differ 2>&1 || {
		head -n 5 differ
		bad "$1 and $2 differ"
	}
}

# is_json FILE: as far as there is someone to ask.
is_json()
{
	! command -v python3 >/dev/null ||
		python3 -m json.tool "$1" >/dev/null || bad "$1 is no JSON"
}

# near_numbers FILE FILE: the same but for a thousandth of each number
near_numbers()
{
	for f in "$1" "$2"; do
		tr -c '0-9.eE+-' '\n' <"$f" | grep '^-*[0-9.]' >"$f.numbers"
	done
	[ -s "$1.numbers" ] || bad "no numbers: $1"
	paste "$1.numbers" "$2.numbers" | awk '
		{ d = $1 - $2; if (d < 0) d = -d; s = $1 < 0 ? -$1 : $1
		  if (!(d <= 0.001 * s + 0.0002)) { print; bad = 1 } }
		END { exit bad }' >apart || bad "$1 and $2: $(cat apart)"
}

# ---- plans for emulated GPUs, which train as those for CPUs do ----

# drawn_losses NAME FOLDER OPTIONS..: of three steps of a plan, to NAME
drawn_losses()
{
	name=$1 folder=$2
	shift 2
	rm -f log
	"$folder/rank" train --local --data draw --seed 5 --steps 3 \
		--log log "$@" >out 2>err || bad "$folder $*" || return
	losses_in log >"$name"
}

# near_losses ONE OTHER CLOSE: three of each, within that part of the first's;
# some awks take NaN for near to each number, so it is found as a word
near_losses()
{
	paste "$1" "$2" | awk -v most="$3" '
		{ d = $1 - $2; d = d < 0 ? -d : d }
		NF != 2 || /[^-+.0-9e\t]/ || d > $1 * most { bad = 1 }
		END { exit bad || NR != 3 }' || {
		paste "$1" "$2"
		bad "$1 and $2: other losses"
	}
}

# built FOLDER ARGUMENTS..: a plan of model.llm
built()
{
	folder=$1
	shift
	# shellcheck disable=SC2086 # words
	run -w --no-whole --draft $dims "$@" -o "$folder" model.llm
}

# begin MODEL [EDIT] [DIMS]: model.llm is that example, edited, and `want' has
# its losses on a CPU
begin()
{
	model=$1 dims=${3-}
	sed "${2-}" "$examples/$model.llm" >model.llm
	rm -rf cpu
	built cpu --target cpux1 && drawn_losses want cpu || exit 1
}

# on TARGET PINS [ARCH] [CLOSE]: emulated, it has the losses that it has on a
# CPU; `gpu' is the plan
on()
{
	rm -rf gpu
	built gpu --target "$1" --pin "$2" --arch "${3:-sm_80}" &&
		drawn_losses got gpu --device emulate &&
		near_losses want got "${4:-1e-5}" || bad "$model on $1, $2"
}

# ---- servers of requests ----

json='Content-Type: application/json'

# fake_servers: $fake is a server whose engine has no model.
fake_servers()
{
	fake=$build/tests/unit/serve/serve-fake
	need http
	command -v curl >/dev/null || skip 'no curl'
	[ -x "$fake" ] || skip 'no serve-fake'
	unset LLMC_API_KEY http_proxy HTTP_PROXY
	pid=
	trap '[ -z "$pid" ] || kill $pid; rm -rf "$tmp"
		[ $failed -eq 0 ] || exit 1' EXIT
}

# start_fake NAME=VALUE..: one of these, as process $pid; $url is where.
start_fake()
{
	: >said
	"$fake" "$@" >said 2>err &
	pid=$!
	waits_for fake said
	url=$(sed -n 's/^fake at \(.*\)\/v1, .*/\1/p' said)
	[ "$url" ] || fail 'no server'
}

# stop_server STATUS: it ends by itself when asked to, with that status.
stop_server()
{
	kill -TERM $pid 2>/dev/null
	wait $pid
	set -- $? "$1"
	[ "$1" -eq "$2" ] || bad "the server ended with $1, not $2"
	pid=
}

# metric NAME: its value.
metric()
{
	curl -sS -m 60 "$url/metrics" | sed -n "s/^llmc_$1 //p"
}

# becomes NAME VALUE: within a minute.
becomes()
{
	for _ in $(seq 600); do
		[ "$(metric "$1")" != "$2" ] || return 0
		sleep 0.1
	done
	bad "$1 is $(metric "$1"), not $2"
}

# text_of FILE: of a reply, whole or in parts.
text_of()
{
	sed -n 's/.*"text":"\(.*\)","logprobs".*/\1/p' "$1" | tr -d '\n'
}

# generate_is FAKE: programs are linked with a file of tests/fakes in place of
# what `generate` does.
generate_is()
{
	LLMC_LINKER="$linker -Wl,--wrap=rt_generate -I${top_srcdir:?} \
		$tests/fakes/$1"
	export LLMC_LINKER
}

# ---- what is compiled here ----

# shared NAME.so OPTION-OR-SOURCE..: a shared object, if there is a compiler.
shared()
{
	# shellcheck disable=SC2086 # CC may hold options
	${CC:-cc} -std=gnu11 -O1 -shared -fPIC -I"$top_srcdir" -o "$@" -ldl \
		>out 2>err
}

# toy_gpu: $rank is the toy with kernels of a GPU, beside the emulator.
toy_gpu()
{
	rank=$tmp/toy-gpu
	[ -x "$build/tests/unit/runtime/toy-gpu" ] || skip 'no toy-gpu'
	cp "$build/tests/unit/runtime/toy-gpu" "$build/runtime/emulate.so" "$tmp"
}

# fake_gpus: the driver and the NCCL of the tests are what llmc finds.
fake_gpus()
{
	shared driver.so -DEMULATOR="\"$build/runtime/emulate.so\"" \
		"$tests/fakes/fake-driver.c" "$tests/fakes/fake-device.c" \
		"$tests/fakes/fake-memory.c" "$tests/fakes/fake-kernels.c" &&
		shared nccl.so "$tests/fakes/fake-nccl.c" \
			"$tests/fakes/fake-nccl-work.c" || return
	export LLMC_LIBCUDA="$tmp/driver.so" LLMC_LIBNCCL="$tmp/nccl.so"
	export FAKE_NCCL_DIR="$tmp"
}

# fake_nvrtc: kernels are text to the driver of the tests, and stay text: it
# takes a third of such a test to make code of them that nothing runs.
fake_nvrtc()
{
	shared nvrtc.so "$tests/fakes/fake-nvrtc.c" || return
	export LLMC_NVRTC="$tmp/nvrtc.so"
}

# attention_model NAME: NAME.llm, of one attention that is in no repeat, which
# serves
attention_model()
{
	cat >"$1.llm" <<EOF
model $1 {
  dim hidden = 64, heads = 2, hd = 32, vocab = 256, seq = 128;
  dtype bf16;
  x = embed(tokens, vocab -> hidden)        @ "embed";
  q = linear(x -> heads, hd)                @ "q";
  x = x + linear(attention(q, q, q, causal) -> hidden) @ "o";
  logits = linear(x -> vocab)               @ "head";
}
EOF
}

# letters_tokenizer: tokenizer.json, of the twenty tokens that the models of
# tests/interop/tiny have: a to t.
letters_tokenizer()
{
	letters=
	for i in $(seq 0 19); do
		letter=$(printf "\\$(printf %o $((97 + i)))")
		letters="$letters${letters:+, }\"$letter\": $i"
	done
	level='{"type": "ByteLevel", "add_prefix_space": false,
		"trim_offsets": true, "use_regex": true}'
	cat >tokenizer.json <<EOF
{"version": "1.0", "added_tokens": [], "normalizer": null,
"pre_tokenizer": $level, "post_processor": null, "decoder": $level,
"model": {"type": "BPE", "vocab": {$letters}, "merges": []}}
EOF
}
