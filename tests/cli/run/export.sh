#!/bin/sh
# rank export: what it refuses, what it says, and a folder of shards.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
tiny=$tests/interop/tiny

plan()
{
	"$LLMC" --draft --no-whole --dim batch=2 --target cpux2 --pin tp=2 \
		"$1" -o "$2" >out 2>err || fail "compile $1"
}
"$LLMC" import "$tiny/mixtral" -o m.llm || fail 'import'
plan m.llm plan
sed '/^export {/,/^}/d' m.llm >bare.llm
plan bare.llm bare

# wrong STATUS WORDS ARGUMENT..: of plan/rank export
wrong()
{
	status=$1 words=$2
	shift 2
	plan/rank export "$@" >out 2>err
	[ $? -eq "$status" ] || bad "export $*: exit status"
	grep -qF -- "$words" err || bad "export $*: expected $words"
}
wrong 2 'no folder to write is given: rank export FOLDER' --weights w
wrong 2 'weights to export: give --checkpoint FOLDER or --weights PATH' x
wrong 2 "'y' is neither an option" x y --weights w
wrong 2 '--shard-bytes takes a whole number' x --weights w --shard-bytes 0
wrong 2 '--steps is not an option of this command' x --weights w --steps 2
wrong 1 'cannot open' x --local --weights nowhere
[ ! -e x ] || bad 'a folder of a failed export'
mkdir full && : >full/file
wrong 1 'full: found a file or a folder that is not empty' full --local \
	--weights "$tiny/mixtral"
[ "$(ls full)" = file ] || bad 'the folder was changed'

# The files that were read come out again, whatever the number of shards.
for bytes in 5000000000 2000 1; do
	plan/rank export "out$bytes" --local --weights "$tiny/mixtral" \
		--shard-bytes "$bytes" >out 2>err || bad "export $bytes"
	"$LLMC" eval --weights "out$bytes" --checksum logits --dim batch=2 \
		m.llm >>sums 2>err || bad "eval of $bytes"
done
"$LLMC" eval --weights "$tiny/mixtral" --checksum logits --dim batch=2 \
	m.llm >>sums 2>err
[ "$(sort sums | uniq -c | awk '$1 == 4' | wc -l)" -eq 2 ] ||
	bad 'logits differ'
[ -f out5000000000/model.safetensors ] || bad 'one file has another name'
[ ! -e out5000000000/model.safetensors.index.json ] || bad 'an index of one'
n=$(ls out1 | grep -c 'model-[0-9]*-of-[0-9]*.safetensors')
[ "$n" -gt 40 ] || bad "only $n shards of a byte"
cmp -s out1/config.json out2000/config.json || bad 'config.json differs'

# A model without the block is exported, with a note.
bare/rank export b --local --weights "$tiny/mixtral" >out 2>err ||
	bad 'export of a model without the block'
grep -q 'no block `export`, so the folder has no config.json' err ||
	bad 'no note'
[ ! -e b/config.json ] || bad 'a config.json of nothing'
exit $failed
