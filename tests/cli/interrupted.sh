#!/bin/sh
# What is told to end, or is started by who does not care how it ends: no file
# or process stays behind, and nobody waits for one that does not come.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker
mkdir scratch
export TMPDIR="$tmp/scratch"

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
ends) echo $$ >pid; kill -s "$TELL" "$PPID"; sleep 1000 ;;
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
	unset LLMC_LINKER
}

# ended WHAT: nor does what the linker has started go on
ended()
{
	i=0
	while kill -0 -- "-$(cat pid)" 2>/dev/null; do
		i=$((i + 1))
		test $i -lt 100 || {
			kill -KILL -- "-$(cat pid)"
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
# What was killed is cleared away by who comes an hour later.
mkdir cache/emu-killed cache/emu-makes1
echo text >cache/emu-killed/i0.c
touch -d '2 hours ago' cache/emu-killed
LLMC_LINKER="$linker -O0" soon 0 'leftovers' gpu/rank bench --steps 1 \
	--device emulate
case $(ls cache) in
*killed*) bad "leftovers: $(ls cache)" ;;
*makes1*) ;;
*) bad 'leftovers: one that is being made is gone' ;;
esac

# ---- who started us ignores its children's ends ----

env --ignore-signal=CHLD true 2>/dev/null || exit $failed
for command in "$LLMC -w --draft --target cpux2 --pin tp=2 -o two $model" \
	'two/rank bench --local --steps 1'; do
	# shellcheck disable=SC2086 # words
	soon 0 "ignored ends: $command" env --ignore-signal=CHLD $command
done
exit $failed
