#!/bin/sh
# A crowd at the server: requests that are garbage, huge, slow, without a key,
# asked twice and given up, all at a time, by the thousand with SLOW_TESTS=1.
# Each has its status, who asks rightly has the tokens that it has alone, nothing
# goes on afterwards, and a second crowd takes no more memory than the first, but
# for a few MB that the allocator keeps of how many were there at once.
. "${top_srcdir:?}/tests/lib.sh"
fake_servers
each=60
[ "${SLOW_TESTS-}" != 1 ] || each=1000
together=40	# connections of a kind at a time
texts=8		# that are asked for rightly
printf 'sesame\n' >key
start_fake key_file=key rows=8 tokens=16 blocks=48 keys=4096 body=65536 \
	queue=100000 timeout=2 in_flight=2 pause=200
c=$url/v1/completions

# What is asked for rightly, by its number: bodies.0 and so on.
for i in $(seq 0 $((texts - 1))); do
	echo "{\"prompt\":\"Once $i upon\",\"max_tokens\":$((20 + 3 * i)),\"seed\":7}" \
		>"bodies.$i"
done

# Random bytes, random letters of JSON, and bodies that end too early.
for i in 0 1 2; do
	head -c $((700 * i + 1)) /dev/urandom >garbage.bytes.$i
	head -c $((70 * i + 9)) /dev/urandom | od -An -tu1 -v | awk '{
		for (k = 1; k <= NF; k++)
			printf "%s", substr("{}[]\",:01e-ntf\\ ", $k % 16 + 1, 1)
	}' >garbage.bytes.$((3 + i))
	head -c $((11 * i + 7)) bodies.$i >garbage.bytes.$((6 + i))
done
head -c 70000 /dev/zero | tr '\0' a >huge.bytes

# list KIND OPTION..: $each requests of a kind, of which options with %d have a
# number below $texts, and a file below 9 by %f
list()
{
	kind=$1
	shift
	for option; do
		echo "$option"
	done | awk -v kind="$kind" -v url="$c" -v each=$each -v texts=$texts '
	{ option[NR] = $0 }
	END {
		for (i = 1; i <= each; i++) {
			if (i > 1) print "next"
			print "url = " url
			print "output = " kind "." i
			print "header = \"Content-Type: application/json\""
			print "write-out = \"%{http_code}\\n\""
			for (k = 1; k <= NR; k++) {
				line = option[k]
				sub(/%d/, i % texts, line)
				sub(/%f/, i % 9, line)
				print line
			}
		}
	}' >"$kind.list"
}

key='header = "Authorization: Bearer sesame"'
list right "$key" 'data-binary = "@bodies.%d"'
list again "$key" 'data-binary = "@bodies.3"'
list keyless 'data-binary = "@bodies.%d"'
list garbage "$key" 'data-binary = "@garbage.bytes.%f"'
list huge "$key" 'data-binary = "@huge.bytes"' 'header = "Expect:"'
# said to be longer than what comes, in vain
list slow "$key" 'header = "Content-Length: 500"' 'data = "{"'
# whose answer nobody waits for
list given-up "$key" 'max-time = 0.%d1' \
	'data = "{\"prompt\":\"a\",\"max_tokens\":700,\"stream\":true}"'

# all KIND: asks them; what each came to is in KIND.codes
all()
{
	curl -sS -Z --parallel-immediate --parallel-max $together -K "$1.list" >"$1.codes" \
		2>"$1.err"
}

# are KIND STATUS..: each has one of these
are()
{
	kind=$1
	shift
	[ "$(wc -l <"$kind.codes")" -eq $each ] ||
		bad "$kind: $(wc -l <"$kind.codes") of $each"
	for code; do
		echo "$code"
	done >codes
	grep -vxFf codes "$kind.codes" >others &&
		bad "$kind: $(sort others | uniq -c | tr '\n' ' ')"
}

# have KIND: each has the text that it has alone
have_texts()
{
	for file in "$1".[0-9]*; do
		i=${file#"$1".}
		[ "$1" != again ] || i=3
		text_of "$file" | cmp -s - "alone.$((i % texts))" ||
			bad "$file has another text"
	done
}

for i in $(seq 0 $((texts - 1))); do
	curl -sS -m 60 -H "$json" \
		-H 'Authorization: Bearer sesame' -d "@bodies.$i" "$c" >out
	text_of out >"alone.$i"
	[ -s "alone.$i" ] || bad "no text $i"
done

# crowd: all kinds at a time; $memory is what the server has then, in kB
crowd()
{
	rm -f right.[0-9]* again.[0-9]*
	kinds=
	for kind in right again keyless garbage huge slow given-up; do
		all $kind &
		kinds="$kinds $!"
	done
	for kind in $kinds; do
		wait "$kind"
	done
	are right 200
	are again 200
	are keyless 401
	are garbage 400
	are huge 413
	# a connection that says nothing more is closed
	are slow 000 400 408
	are given-up 200 000
	have_texts right
	have_texts again
	becomes sequences_running 0
	[ "$(metric sequences_waiting)" = 0 ] || bad 'something waits'
	memory=$(sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' \
		/proc/$pid/status)
}

crowd
first=$memory
[ "$(metric requests_cancelled_total)" -gt $((each / 2)) ] ||
	bad "$(metric requests_cancelled_total) of $each were given up"
crowd
# a sanitizer keeps what was freed, and tells itself of leaks as it ends
[ "$first" ] && [ "$memory" ] || bad 'nobody tells how much memory it has'
grep -q __asan_init "$fake" || [ $((memory - first)) -lt 8000 ] ||
	bad "$first kB became $memory kB"
echo "$((14 * each)) requests; $first kB, then $memory kB"
stop_server 0
exit $failed
