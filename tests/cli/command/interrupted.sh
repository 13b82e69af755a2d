#!/bin/sh
# What a signal ends, or is started by who does not care how it ends: no file
# or process stays behind, and nobody waits for one that does not come.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker
mkdir scratch
export TMPDIR="$tmp/scratch"
unset LLMC_PROGRESS

# clean WHAT FOLDER..: is nothing there, and is no folder of a plan?
clean()
{
	what=$1
	shift
	for folder; do
		test -z "$(ls "$folder")" || bad "$what: $(ls "$folder")"
	done
	test "$(echo none*)" = 'none*' || bad "$what: leaves $(echo none*)"
}

# soon STATUS WHAT COMMAND..: it ends with that status, and not by us
soon()
{
	wanted=$1 what=$2
	shift 2
	timeout -s KILL 120 "$@" >out 2>err
	got=$?
	test $got = "$wanted" || bad "$what: exit status $got"
}

# ---- llmc ----

model=$examples/tiny-dense.llm
for ms in 000 050 200 400 800; do
	timeout -s INT 0.$ms "$LLMC" -w --target cpux4 --pin tp=2,pp=2 \
		-o none "$model" >out 2>err
	test -x none/rank && rm -rf none
	clean "after $ms ms" scratch
done

# A linker that tells who waits for it to end, and would not end itself: it
# does, with what it waits for.  A signal that is ignored ends nothing.
cat >linker <<'END2'
#!/bin/sh
case $LINKS in
ends)
	echo $$ >pid
	kill -s "$TELL" "$PPID"
	[ "$TELL" = KILL ] || sleep 1000
	exit
	;;
esac
kill -s "$TELL" "$PPID"
exec $LINKER "$@"
END2
chmod +x linker
export LINKER="$linker" LINKS=ends TELL

# links STATUS WHAT COMMAND..
links()
{
	export LLMC_LINKER="$tmp/linker"
	soon "$@"
	LLMC_LINKER="$linker -O0"
}

# ended WHAT: nor does what the linker has started go on
ended()
{
	i=0
	while kill -0 -- "-$(cat pid)" 2>/dev/null; do
		i=$((i + 1))
		test $i -lt 100 || {
			kill -s KILL -- "-$(cat pid)"
			bad "$1: processes stay"
			return
		}
		sleep 0.1
	done
}

for TELL in TERM:143 INT:130; do
	got=${TELL#*:} TELL=${TELL%:*}
	links "$got" "$TELL while it links" "$LLMC" -w --draft --target cpux1 \
		-o none "$model"
	clean "$TELL while it links" scratch
	ended "$TELL while it links"
done
LINKS=goes-on TELL=HUP
# shellcheck disable=SC2016 # of that shell
links 0 'an ignored signal' sh -c 'trap "" HUP; exec "$@"' sh "$LLMC" -w \
	--draft --target cpux1 -o one "$model"
test -x one/rank || bad 'an ignored signal: no plan'

# ---- who waits at a terminal ----

# What is legal and takes long says so there, and Ctrl-C ends it at once.
cat >long.llm <<'END2'
model long {
  dim seq = 4, hidden = 8, vocab = 8;
  x = embed(tokens, vocab -> hidden)            @ "e";
  repeat 1000000 as i { repeat 1000 as k { x = silu(x); } }
  loss = cross_entropy(linear(x -> vocab) @ "h", labels);
}
END2
if script -qec true /dev/null >out 2>&1 </dev/null; then
	# the terminal makes a signal of the byte, for who is in front of it
	{
		# at the left of a line that begins with an escape
		waits_for ".*$(printf '\r')llmc: 5 s so far, in evaluation" \
			screen >&2
		printf '\003'
	} | timeout -s KILL 300 script -qec \
		"'$LLMC' eval -w long.llm >none.out" /dev/null >screen 2>err
	got=$?
	grep -q '5 s so far, in evaluation' screen ||
		bad 'no progress at a terminal'
	# at the left, whatever a search has drawn in that line
	grep -q "$(printf '\r')llmc: 5 s so far" screen ||
		bad 'progress at a terminal is not at the left'
	test $got = 130 || bad "Ctrl-C while it evaluates: exit status $got"
	test ! -s none.out || bad 'progress on standard output'
	rm none.out
	clean 'Ctrl-C while it evaluates' scratch
	# A search says after a second what it has, and Ctrl-C ends it alone:
	# the answer is the best so far, with what may be better.
	{
		waits_for ".*$(printf '\r')search: [0-9]* s, .* best " \
			screen >&2
		printf '\003'
	} | timeout -s KILL 300 script -qec "exec '$LLMC' -w --threads 1 \
		--target h100x8x2048 --explain=search \
		'$examples/deepseek-v3.llm' >whole.out" /dev/null >screen 2>err
	got=$?
	test $got = 0 || bad "Ctrl-C while it searches: exit status $got"
	grep -q 'plans left open: the search ended  *[1-9]' whole.out ||
		bad 'Ctrl-C while it searches: it went on'
	grep -q ': a gap of [0-9.]*[1-9][0-9.]*%$' whole.out ||
		bad 'Ctrl-C while it searches: no gap'
	rm whole.out
fi

# ---- compilers of kernels that are emulated ----

cat >small.llm <<'END2'
model small {
  dim seq = 4, hidden = 8, vocab = 8;
  x = embed(tokens, vocab -> hidden)            @ "embed";
  loss = cross_entropy(linear(x -> vocab) @ "head", labels);
}
train { batch = 2; optimizer = adamw(lr = 1e-3); }
END2
LLMC_NVRTC=/nonexistent run -w --no-whole --draft --target h100x1 \
	--arch sm_80 -o gpu small.llm
mkdir cache
export LLMC_CACHE="$tmp/cache"
for TELL in TERM:143 INT:130; do
	got=${TELL#*:} TELL=${TELL%:*} LINKS=ends
	links "$got" "$TELL while it emulates" gpu/rank bench --steps 1 \
		--device emulate
	clean "$TELL while it emulates" scratch cache
	ended "$TELL while it emulates"
done

# ---- who is killed leaves its folder to the next ----

# left WHERE: folders of ours there
left()
{
	find "$1" -maxdepth 1 -name 'llmc-scratch-??????' -type d | wc -l
}

LINKS=ends TELL=KILL
links 137 'killed while it links' "$LLMC" -w --draft --target cpux1 -o none \
	"$model"
[ "$(left scratch)" = 1 ] || bad 'killed while it links: nothing to remove'
links 137 'killed while it emulates' gpu/rank bench --steps 1 \
	--device emulate
[ "$(left cache)" = 1 ] || bad 'killed while it emulates: nothing to remove'
# These stay: in use by a process that lives, not private, not named so, a
# link and what it leads to, and what a folder in it holds.
for folder in scratch cache; do
	mkdir -m 700 $folder/llmc-scratch-locked $folder/llmc-scratch-public \
		$folder/llmc-scratch-7 $folder/other $folder/llmc-scratch-inside
	chmod 755 $folder/llmc-scratch-public
	ln -s other $folder/llmc-scratch-linked
	mkdir $folder/llmc-scratch-inside/deeper
	for file in locked public 7 inside/deeper; do
		echo text >$folder/llmc-scratch-$file/file
	done
	echo text >$folder/other/file
done
exec 8<scratch/llmc-scratch-locked 9<cache/llmc-scratch-locked
flock 8 && flock 9 || bad 'no flock'
soon 0 'after one was killed' "$LLMC" -w --draft --target cpux1 -o none \
	"$model" 8<&- 9<&-
rm -rf none
soon 0 'after one was killed' gpu/rank bench \
	--steps 1 --device emulate 8<&- 9<&-
for folder in scratch cache; do
	[ "$(left $folder)" = 3 ] || bad "left in $folder: $(ls $folder)"
	for file in llmc-scratch-locked/file llmc-scratch-public/file \
		llmc-scratch-7/file llmc-scratch-linked/file \
		llmc-scratch-inside/deeper/file; do
		[ -f $folder/$file ] || bad "$folder/$file is gone"
	done
done
exec 8<&- 9<&-

# ---- who started us ignores its children's ends ----

env --ignore-signal=CHLD true 2>/dev/null || exit $failed
for command in "$LLMC -w --draft --target cpux2 --pin tp=2 -o two $model" \
	'two/rank bench --local --steps 1'; do
	# shellcheck disable=SC2086 # words
	soon 0 "ignored ends: $command" env --ignore-signal=CHLD $command
done
exit $failed
