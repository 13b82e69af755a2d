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

# Weights whose names have another prefix.
sed 's/@ "model\./@ "/' m.llm >short.llm
plan short.llm short
short/rank export s --local --weights "$tiny/mixtral" >out 2>err &&
	bad 'export of other names'
grep -q 'not found' err || bad 'what is said of other names'
short/rank export s --local --weights "$tiny/mixtral" --rename model.= \
	>out 2>err || bad 'export --rename'

# A run exports its weights as it goes, and what is there is replaced.
# runs ARGUMENTS..
runs()
{
	plan/rank train --local --data draw --checkpoint c --export hf \
		--log log "$@" >out 2>err
}
runs --steps 3 --export-every 2 || bad 'train --export'
[ "$(ls hf | tr '\n' ' ')" = 'step-00000002 step-00000003 ' ] ||
	bad 'other exports'
grep -q '"event": "export", .*"step": 3, "export_ms": ' log || bad 'no event'
plan/rank export three --local --checkpoint c >out 2>err || bad 'export'
for file in config.json model.safetensors; do
	cmp three/$file hf/step-00000003/$file || bad "$file differs"
done
"$LLMC" import hf/step-00000003 -o m3.llm >out 2>err || bad 'import of a run'
cp hf/step-00000002/model.safetensors hf/step-00000003
runs --steps 3 --resume || bad 'a second export'
cmp three/model.safetensors hf/step-00000003/model.safetensors ||
	bad 'the export was not replaced'
: >hf/step-00000003/mine
runs --steps 3 --resume && bad 'a folder with other files was replaced'
grep -q 'hf/step-00000003: found a file or a folder that is not empty' err ||
	bad 'what is said of a folder with other files'
plan/rank train --local --data draw --steps 1 --export-every 2 >out 2>err
[ $? -eq 2 ] && grep -q 'no folder for exports is given: --export' err ||
	bad 'exports without a folder'
ls hf three | grep -v '^$' | grep tmp && bad 'something is left'
exit $failed
