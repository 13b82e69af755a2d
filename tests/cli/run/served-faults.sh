#!/bin/sh
# Ranks of a server that are killed at random moments, with requests on their
# way: every client has an answer or an error, nothing hangs, and no rank stays.
# FAULT_MOMENTS is how often (default 6, or 3 in a hurry); FAULT_TELL prints
# what each took.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
test -r "/proc/$$/task/$$/children" || skip 'nobody tells who the ranks are'
need http
command -v curl >/dev/null || skip 'no curl'
unset LLMC_API_KEY http_proxy HTTP_PROXY
moments=${FAULT_MOMENTS:-$(have time && echo 6 || echo 3)}
seed=${FAULT_SEED:-$(date +%s)}
echo "FAULT_SEED=$seed"
job=
trap '[ -z "$job" ] || kill $job; rm -rf "$tmp"; [ $failed -eq 0 ] || exit 1' \
	EXIT

run --draft --target cpux1 --pin microbatch=1 -o train \
	"$examples/tiny-dense.llm" &&
	./train/rank train --data draw --steps 1 --checkpoint ck >out 2>err ||
	fail 'training'
run --serve --draft --target cpux4 --pin tp=2,pp=2 -o four \
	--workload prompt=8,output=4,context=16,tokens=8,rows=4,keys=512,slots=640 \
	"$examples/tiny-dense.llm" || fail 'no program'

# client N: streams or asks at once, one request after the other, until one
# fails; its file ends with the status of curl, and when that was.
client()
{
	stream=false
	[ $(($1 % 2)) -eq 0 ] || stream=true
	while :; do
		code=$(curl -sS -m 100 -o "reply.$1" -w '%{http_code}' \
			-H 'Content-Type: application/json' \
			"$url/v1/completions" -d '{"prompt": "abc'"$1"'",
			"max_tokens": 11, "stream": '$stream'}' 2>>"said.$1")
		got=$?
		if [ $got -ne 0 ] || [ "$code" != 200 ] ||
		    grep -q '"error"' "reply.$1"; then
			echo "$got $code $(now_ms)" >"end.$1"
			return
		fi
	done
}

longest=0
for i in $(seq "$moments"); do
	rm -f end.* reply.* said.*
	: >served
	./four/rank serve --local --checkpoint ck --port 0 >served 2>err &
	job=$!
	waits_for tiny_dense served
	url=$(sed -n 's/^tiny_dense at \(.*\)\/v1, .*/\1/p' served)
	clients=
	for n in 1 2 3 4 5 6; do
		client $n &
		clients="$clients $!"
	done
	draw_below 1000
	sleep "$(printf 0.%03d "$drawn")"
	late=$drawn
	draw_below 4
	a='' b='' c='' d=''
	read -r a b c d <"/proc/$job/task/$job/children"
	ranks="$a $b $c $d"
	victim=$(echo "$ranks" | cut -d' ' -f$((drawn + 1)))
	what="child $drawn, killed after $late ms"
	from=$(now_ms)
	kill -KILL "$victim" || bad "$what: nobody to kill in '$ranks'"
	wait $job
	got=$?
	job=
	took=$(($(now_ms) - from))
	[ $got -eq 1 ] || bad "$what: exit status $got"
	grep -q '^rank: rank [0-9]* was killed by signal 9' err ||
		bad "$what: nobody says who was killed"
	# shellcheck disable=SC2086
	wait $clients
	for n in 1 2 3 4 5 6; do
		read -r got code at <"end.$n" || bad "$what: client $n"
		[ "$got" -ne 28 ] || bad "$what: client $n waited for ever"
		at=$((at - from))
		[ $at -ge 0 ] || bad "$what: client $n failed before"
		[ $at -le $longest ] || longest=$at
	done
	# ten seconds, and what a busy machine adds
	[ $took -lt 60000 ] || bad "$what: the server took $took ms to end"
	for rank in $ranks; do
		! kill -0 "$rank" 2>/dev/null || bad "$what: a rank stays"
	done
	[ -z "${FAULT_TELL:-}" ] || echo "$what: $took ms"
done
[ $longest -lt 60000 ] || bad "a client waited $longest ms"
[ -z "${FAULT_TELL:-}" ] || echo "the longest wait of a client: $longest ms"
exit $failed
