#!/bin/sh
# What another user, or an earlier run, may leave where LLMC_RENDEZVOUS names a
# file: nothing of it is followed, waited for or believed; and rank 0 leaves
# nothing, however it ends.
. "${top_srcdir:?}/tests/lib.sh"
need binaries llvm linker
place=$tmp/place

run -w --draft --target cpux2 --pin dp=2 --no-whole -o plan \
	"$examples/tiny-dense.llm" || exit
# rank NUMBER ARGUMENTS..: one of two, each on a host of its own
rank()
{
	r=$1
	shift
	RANK=$r WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
		LLMC_RENDEZVOUS=file:$place exec plan/rank "$@"
}

# refused_by RANK TEXT: that rank ends within two minutes, and says so
refused_by()
{
	(rank "$1" bench --timeout 1) >out 2>err
	[ $? -eq 1 ] || bad "$2: exit status"
	grep -qF -- "$2" err || bad "not said: $2"
}

mkfifo "$place"
refused_by 0 'it is a FIFO'
refused_by 1 'it is a FIFO'
rm "$place"
echo precious >target
ln -s target "$place"
refused_by 0 'it is a symbolic link'
refused_by 1 'it is a symbolic link'
[ "$(cat target)" = precious ] || bad 'a link was followed'
rm "$place"
cp target "$place"
refused_by 0 'a file with something else is there'
[ "$(cat "$place")" = precious ] || bad 'a file was replaced'
rm "$place"
if [ "$(id -u)" -eq 0 ]; then
	echo 'llmc-rendezvous 2 0 1' >"$place"
	chmod 0644 "$place"
	chown 65534 "$place"
	refused_by 0 'it is of user 65534'
	refused_by 1 'it is of user 65534'
	rm "$place"
fi

# both: they meet, and the file is gone
both()
{
	(rank 0 bench --steps 1 --timeout 120) >out.0 2>err.0 &
	first=$!
	(rank 1 bench --steps 1 --timeout 120) >out 2>err ||
		bad "$1: rank 1"
	wait $first || bad "$1: rank 0: $(cat err.0)"
	[ ! -e "$place" ] || bad "$1: the file is left"
}

# What a killed run has left, whole and cut.
waits()
{
	(rank 0 bench --timeout 120) >out.0 2>err.0 &
	first=$!
	waits_for end "$place"
}
waits
[ "$(stat -c %a "$place")" = 600 ] || bad 'others can read the file'
refused_by 0 'the first rank of another run waits there'
kill -KILL $first
wait $first
cp -p "$place" whole
both 'after a run that was killed'
bytes=$(wc -c <whole)
for n in 0 1 16 $((bytes / 2)) $((bytes - 1)); do
	(umask 077; head -c "$n" whole >"$place")
	if [ "$n" -eq 1 ]; then
		refused_by 0 'a file with something else is there'
		rm "$place"
	else
		both "after $n bytes"
	fi
done

for signal in TERM INT HUP QUIT USR1 USR2; do
	# sh lets what it starts behind it ignore two of these
	(trap - INT QUIT; rank 0 bench --timeout 120) >out.0 2>err.0 &
	first=$!
	waits_for end "$place"
	case $signal in
	INT | QUIT)
		kill -$signal $first
		sleep 0.5
		kill -TERM $first 2>/dev/null
		;;
	*) kill -$signal $first ;;
	esac
	wait $first
	[ ! -e "$place" ] || bad "the file is left after SIG$signal"
done

have attacks || exit $failed

# Killed at any moment of its start; each time the next two meet.
for i in $(seq 40); do
	(rank 0 bench --timeout 120) >out.0 2>err.0 &
	first=$!
	sleep "0.$(printf %03d $((i * 7)))"
	kill -KILL $first
	wait $first
	both "killed at moment $i"
done 2>/dev/null
exit $failed
