#!/bin/sh
# A signal to quickstart alone, as a supervisor or a shell that ends sends it,
# ends what it has started, too: none goes on that nobody waits for.  Ctrl-Z stops
# it all, and fg continues it; one runs at a time, from wherever it is called.
. "${top_srcdir:?}/tests/lib.sh"
env --default-signal=HUP,INT bash -c : 2>/dev/null || skip 'no bash, or no such env'

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

# begun N COMMAND..: it runs, and waits for N of make
begun()
{
	n=$1
	shift
	: >pids
	env --default-signal=HUP,INT "$@" >out 2>err &
	for _ in $(seq 600); do
		[ "$(wc -l <pids)" -lt "$n" ] || break
		sleep 0.1
	done
	[ "$(wc -l <pids)" -eq "$n" ] || bad "$*: $(wc -l <pids) of make"
}

# ended SIGNAL STATUS: which it has by that signal, and make is gone
ended()
{
	kill -s "$1" $!
	wait $!
	got=$?
	[ $got = "$2" ] || bad "$1: exit status $got"
	# who is nobody's child takes a moment to be forgotten
	for pid in $(tr ' ' '\n' <pids); do
		for _ in $(seq 50); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		! kill -s KILL "$pid" 2>/dev/null ||
			bad "$1: a process of make stays"
	done
}

# all_are STATE: T is stopped, S is not
all_are()
{
	for _ in $(seq 50); do
		states=$(for pid in $! $(tr ' ' '\n' <pids); do
			sed 's/.*) \(.\).*/\1/' "/proc/$pid/stat"
		done | sort -u)
		[ "$states" != "$1" ] || return 0
		sleep 0.1
	done
	bad "states $states of processes, not $1"
}

for case in TERM:143 HUP:129 INT:130; do
	begun 1 tree/quickstart
	ended "${case%:*}" "${case#*:}"
	begun 2 tree/quickstart check
	ended "${case%:*}" "${case#*:}"
done

begun 2 tree/quickstart check
if [ -r /proc/$!/stat ]; then
	kill -s TSTP $!
	all_are T
	kill -s CONT $!
	all_are S
	kill -s TSTP $!
	all_are T
fi
if command -v flock >/dev/null; then
	tree/quickstart >out 2>err && bad 'two at once'
	grep -q "^quickstart: another quickstart runs in $tmp/tree$" err ||
		bad 'not said why two at once do not run'
fi
kill -s CONT $!
ended TERM 143

# It builds where it lies, though a link to it lies elsewhere.
ln -s ../tree/quickstart bin/quick
begun 1 bin/quick
ended TERM 143
exit $failed
