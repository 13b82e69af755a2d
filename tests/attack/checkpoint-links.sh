#!/bin/sh
# Cleaning up never leaves a folder of checkpoints: what is a link there is
# neither entered nor removed, whatever its name, while a checkpoint that is
# linked is read like any other.
. "${top_srcdir:?}/tests/lib.sh"
rank=$build/tests/unit/runtime/toy-rank

# trains STEPS FOLDER ARGUMENTS..
trains()
{
	steps=$1 folder=$2
	shift 2
	"$rank" train --local --data draw --steps "$steps" \
		--checkpoint "$folder" "$@" >out 2>err
}

# untouched WHAT: golden is as it was
untouched()
{
	diff -r golden before >differ 2>&1 || bad "$1: $(cat differ)"
}

# is_link PATH
is_link()
{
	test -h "$1" || bad "$1 is no link any more: $(ls -l ck)"
}

trains 2 made || fail 'a first run'
mkdir golden
mv made/step-00000002 golden/best
echo mine >golden/notes
cp -r golden before

# ---- resuming from a checkpoint that is linked into the folder ----

mkdir ck
ln -s ../golden/best ck/step-00000002
trains 6 ck --resume --every 1 || bad 'a linked checkpoint cannot be read'
grep -q 'resumed at step 2' out || bad 'nothing was resumed'
untouched 'an old checkpoint'
is_link ck/step-00000002
# what the run has written itself it may remove, and links are not counted
printf 'step-%08d\n' 2 5 6 >wanted
# shellcheck disable=SC2012 # names of our own
ls ck | diff wanted - || bad 'what stays'

# ---- each name that cleaning up looks for ----

for name in step-00000003 step-00000006.old step-00000006.tmp-1f \
	step-00000001.tmp-; do
	rm -rf ck
	mkdir ck
	ln -s ../golden/best ck/$name
	trains 6 ck || bad "$name: $(cat err)"
	untouched "$name"
	is_link ck/$name
	trains 7 ck --resume --keep 1 || bad "$name: $(cat err)"
	untouched "$name, the newest alone"
	is_link ck/$name
	test ! -e ck/step-00000006 || bad "$name: what the run wrote stays"
done

# A link in the place of the checkpoint that is saved is put aside.
rm -rf ck
mkdir ck
ln -s ../golden/best ck/step-00000002
trains 2 ck || bad 'a link where the checkpoint goes'
untouched 'a link where the checkpoint goes'
is_link ck/step-00000002.old
test -f ck/step-00000002/checkpoint.json || bad 'no new checkpoint'
# then there is one aside already, which stays: the save is what fails
rm -rf ck/step-00000002
ln -s ../golden/best ck/step-00000002
trains 2 ck && bad 'a link aside is replaced'
grep -q 'step-00000002.old: found .*, expected nothing' err || bad 'refusal'
untouched 'two links'
is_link ck/step-00000002
is_link ck/step-00000002.old

# ---- links within a folder, and links that lead nowhere ----

rm -rf ck
trains 3 ck || bad 'a run'
mv ck/step-00000003/model.safetensors golden/
cp golden/model.safetensors before/
ln -s ../../golden/model.safetensors ck/step-00000003/
trains 5 ck --resume --keep 1 || bad 'a checkpoint of linked files'
untouched 'a linked file'
is_link ck/step-00000003/model.safetensors
test -f ck/step-00000003/checkpoint.json || bad 'half of a checkpoint is left'

rm -rf ck
mkdir ck
ln -s nowhere ck/step-00000002.tmp-1f
ln -s nowhere ck/step-00000003
trains 3 ck || bad "links to nothing: $(cat err)"
is_link ck/step-00000002.tmp-1f
is_link ck/step-00000003.old
test -e ck/nowhere && bad 'a link to nothing is followed'

# A folder of one's own that is reached through a link is one's own.
rm -rf ck real
mkdir real
ln -s real ck
trains 5 ck --every 1 --keep 1 || bad 'a folder that is a link'
# shellcheck disable=SC2012 # names of our own
test "$(ls real)" = step-00000005 || bad "kept: $(ls real)"
exit $failed
