#!/bin/sh
# A signal to quickstart alone, as a supervisor or a shell that ends sends it,
# ends what it has started, too: none goes on that nobody waits for.
. "${top_srcdir:?}/tests/lib.sh"
env --default-signal=INT bash -c : 2>/dev/null || skip 'no bash, or no such env'

# A tree in which all that it asks for is there, and make would not end.
mkdir tree bin
cp "$top_srcdir/quickstart" tree
for tool in cc flex bison autoconf automake pkg-config llvm-config; do
	printf '#!/bin/sh\necho 19.1.0\n' >bin/$tool
done
cat >bin/make <<'END'
#!/bin/sh
# shellcheck disable=SC2016 # of that shell
sh -c 'echo "$1 $$" >>"$PIDS"; exec sleep 300' sh $$
END
cat >tree/autogen.sh <<'END'
#!/bin/sh
mkdir -p config
printf '#!/bin/sh\n: >Makefile\n' >configure
chmod +x configure
END
chmod +x bin/* tree/*
export PATH="$tmp/bin:$PATH" PIDS="$tmp/pids"

# stopped SIGNAL STATUS N ARGUMENTS..: while it waits for N of make
stopped()
{
	signal=$1 wanted=$2 n=$3
	shift 3
	: >pids
	env --default-signal=INT tree/quickstart "$@" >out 2>err &
	for _ in $(seq 600); do
		[ "$(wc -l <pids)" -lt "$n" ] || break
		sleep 0.1
	done
	[ "$(wc -l <pids)" -eq "$n" ] || bad "$signal: $(wc -l <pids) of make"
	kill -s "$signal" $!
	wait $!
	got=$?
	[ $got = "$wanted" ] || bad "$signal: exit status $got"
	# who is nobody's child takes a moment to be forgotten
	for pid in $(tr ' ' '\n' <pids); do
		for _ in $(seq 50); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		! kill -s KILL "$pid" 2>/dev/null ||
			bad "$signal: a process of make stays"
	done
}

for case in TERM:143 HUP:129 INT:130; do
	stopped "${case%:*}" "${case#*:}" 1
	stopped "${case%:*}" "${case#*:}" 2 check
done
exit $failed
