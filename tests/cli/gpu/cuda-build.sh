#!/bin/sh
# Plans for GPUs: their kernels compile without a spill or a warning, give the
# same bytes cached or not, and are finished where NVRTC was missing.
# CUDA_MODELS="a b" and CUDA_TARGETS="x y" name other examples, and targets in
# place of one of two on each day.
. "${top_srcdir:?}/tests/lib.sh"
need llvm nvrtc linker

export LLMC_CACHE="$tmp/cache"
unset LLMC_NVRTC

# plan FOLDER ARGUMENTS..: of the model
plan()
{
	folder=$1
	shift
	run -w -Werror=slow-kernel "$@" -o "$folder" "$model"
}

# ---- kernels of examples compile ----

# table NAME TARGET: of `sample`, how many sources there are, how many of them
# are not what came first, functions, and the most registers of one
table()
{
	run -w --no-whole --target "$2" --emit=cuda "$model"
	mkdir first-choices
	# an empty line comes before each
	awk '/^\/\* ---- [a-z0-9]*.cu ---- \*\/$/ {
			to = "first-choices/" $3
			empty = 0
			next
		}
		empty { print "" >to }
		{ empty = $0 == "" }
		!empty { print >to }' out
	all=0
	others=0
	for source in sample/kernels/*.cu; do
		all=$((all + 1))
		cmp -s "$source" "first-choices/$(basename "$source")" ||
			others=$((others + 1))
	done
	echo "$1 $2: $all sources, $others with other tiles," \
		"$(grep -c '"registers"' sample/plan.json) functions, at most" \
		"$(sed -n 's/.*"registers": \([0-9]*\).*/\1/p' \
			sample/plan.json | sort -n | tail -1) registers"
	rm -rf first-choices
}

for name in ${CUDA_MODELS:-tiny-dense}; do
	for target in ${CUDA_TARGETS:-h100x1 a100-sxmx1}; do
		[ "${CUDA_TARGETS-}" ] || today 2 || continue
		model=$examples/$name.llm
		rm -rf sample
		plan sample --no-whole --target "$target"
		for source in sample/kernels/*.cu; do
			[ -s "${source}bin" ] ||
				bad "$name $target: no ${source}bin"
		done
		if grep -q '"spill_bytes": [1-9]' sample/plan.json; then
			bad "$name $target: a spill"
		fi
		grep -q '"fits": true' sample/plan.json ||
			bad "$name $target: it does not fit"
		table "$name" "$target"
	done
done

# ---- the same bytes: compiled, from the cache, and from one that is broken ----

# Few kernels, which are quickly compiled.
cat >small.llm <<'EOF'
model small {
  dim hidden = 64, ffn = 160, vocab = 256, seq = 16;
  dtype f32;
  x = embed(tokens, vocab -> hidden)        @ "embed";
  m = rmsnorm(x)                            @ "norm";
  x = x + linear(silu(linear(m -> ffn) @ "up") -> hidden) @ "down";
  logits = linear(x -> vocab)               @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 4; optimizer = adamw(lr = 1e-3); }
EOF
model=small.llm

rm -rf cache
plan first --target h100x2 --pin tp=2
plan cached --target h100x2 --pin tp=2
same_folders first cached
plan alone --target h100x2 --pin tp=2 --no-cache
same_folders first alone
# every third is broken, and no other is compiled again
i=0
for entry in cache/*.image; do
	i=$((i + 1))
	[ $((i % 3)) -eq 0 ] || continue
	echo "$entry" >>damaged
	printf x | dd of="$entry" bs=1 seek=200 conv=notrunc 2>/dev/null
done
[ "$(wc -l <damaged)" -gt 3 ] || bad 'hardly anything is in the cache'
ls -i cache | sort >entries
plan broken --target h100x2 --pin tp=2
same_folders first broken
ls -i cache | sort | comm -13 entries - | sed 's,^ *[0-9]* ,cache/,' |
	sort >again
sort damaged | cmp - again || bad 'other entries are compiled again'
# NVRTC chose other registers for tcgen05 each time, where its text was another.
if today 2; then
	sed 's/dtype f32/dtype bf16/' "$model" >half.llm
	for folder in half half2; do
		run -w --no-cache --no-whole --target b200x1 -o $folder half.llm
		same_folders half $folder
	done
	grep -q 'form(TC_BF16, [0-9]*, 1, 1)' half/kernels/*.cu ||
		bad 'no gradient of a weight by tcgen05'
fi
grep -qF "$tmp" first/rank && bad 'paths in the program'
is_json first/plan.json
grep -q '"made_by": "NVRTC [0-9.]*, sm_90a"' first/plan.json ||
	bad 'plan.json does not say what made it'
grep -q '"name": "dot[0-9]*", "threads": [1-9][0-9]*, .*"registers": [1-9]' \
	first/plan.json || bad 'no registers in plan.json'
run -w --target b200x2 --pin tp=2 --emit=cuda "$model"
grep tcgen05 err && bad 'a note about a model without experts'
for type in bf16 tf32; do
	sed "s/dtype f32/dtype $type/" "$examples/tiny-moe.llm" >moe.$type.llm
	run -w --target b200x2 --pin ep=2 --emit=cuda moe.$type.llm
	grep 'experts of tf32, .* sm_100a multiply with mma' err >said.$type
done
[ -s said.bf16 ] && bad 'a note about experts by tcgen05'
[ -s said.tf32 ] || bad 'nothing says that experts in tf32 are slow'
run -w --target h100x2 --pin tp=2 --emit=cuda "$model"
grep tcgen05 err && bad 'a note about an h100'
for source in first/kernels/[a-vx-z]*.cu; do
	name=$(basename "$source")
	sed -n "\,^/\* ---- $name ---- \*/\$,,\,^/\* ---- ,p" out | tail -n +2 |
		cmp -s -n 200 - "$source" || bad "--emit=cuda has no $name"
done

# ---- as many multiprocessors as the target has ----

cat >long.llm <<'EOF'
model long {
  dim hidden = 256, vocab = 96000, seq = 2048;
  dtype bf16;
  x = embed(tokens, vocab -> hidden)        @ "embed";
  logits = linear(x -> vocab)               @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 1; optimizer = adamw(lr = 1e-3); }
EOF
# grids COUNT TARGET: grids of the target have that many blocks
grids()
{
	run -w --no-whole --target "$2" --emit=cuda long.llm
	grep -q "^/\* $1 x 1 x 1 blocks of 384 threads" out ||
		bad "$2: no grid has $1 blocks"
}
printf 'target few { accelerator = h100; devices = 1; units = 78; }\n' >few.target
cat >mixed.target <<'EOF'
target more { accelerator = h100; devices = 1; }
target less { accelerator = "h100-pcie"; devices = 1; }
EOF
grids 132 h100x1
grids 114 h100-pciex1
grids 148 b200x1
grep -q 'tc_mma_f16(' out || bad 'contractions of a b200 are not by tcgen05'
grids 78 few.target
grids 114 mixed.target

# ---- where NVRTC is missing ----

export LLMC_NVRTC=/nonexistent
# A plan that takes all memory but for what parts of its contractions need.
model=$examples/llama-3-8b.llm
plan large --draft --no-whole --target h100x8
grep -q '"fits": true' large/plan.json || bad 'parts are not in the plan'
model=small.llm
plan later --target h100x2 --pin tp=2
grep -q 'kernels are not compiled: NVRTC cannot be loaded: /nonexistent' err ||
	bad 'no note of what is missing'
grep -q 'llmc finish later' err || bad 'no note of how to finish'
cmp -s later/rank first/rank && bad 'compiled all the same'
later/rank inspect >out 2>err || bad 'what is unfinished cannot be inspected'
grep -q '"made_by": null' later/plan.json || bad 'unfinished, and made'
cmp later/plan.llp first/plan.llp || bad 'the plan is another one'

# unfinished WORDS: finishing `work` fails, and changes nothing
unfinished()
{
	cp -R work before
	refused "$1" finish work
	same_folders before work
	rm -rf before work
	cp -R later work
}

cp -R later work
unfinished 'work cannot be finished here: NVRTC cannot be loaded'
unset LLMC_NVRTC
source=$(cd later/kernels && echo rowwise*.cu | sed 's/ .*//')
echo >>work/kernels/"$source"
unfinished "work/kernels/$source was changed since it was written"
rm work/kernels/"$source"
unfinished "cannot read work/kernels/$source: No such file"
rm work/kernels/prelude.h
unfinished 'cannot read work/kernels/prelude.h'
echo >>work/unfinished/plan.o
unfinished 'work/unfinished/plan.o was changed since it was written'
echo '{' >work/unfinished/answer.json
unfinished 'work/unfinished/answer.json was changed since it was written'
rm work/unfinished/list
unfinished 'work/unfinished/list, the list of what to compile, is missing'
rm -r work/unfinished
unfinished 'work/unfinished is missing, and kernels are not compiled'
rm work/unfinished/whole.o
unfinished 'cannot read work/unfinished/whole.o'
sed -i 's/^compiler .*/compiler llmc 9.9/' work/unfinished/list
unfinished 'work was written by llmc 9.9 (ABI'
sed -i 's/^abi .*/abi 1/' work/unfinished/list
unfinished 'ABI 1), and this is llmc'
sed -i 's/^arch .*/arch sm_1/' work/unfinished/list
unfinished 'work/unfinished/list:4:1: error: found `sm_1`'
sed -i '1s/.*/hello/' work/unfinished/list
unfinished 'work/unfinished/list:1:1: error: found `hello`'
sed -i '7s/.*/plan ..\/x 00000000000000000000000000000000/' \
	work/unfinished/list
unfinished 'work/unfinished/list:7:1: error: found `plan ../x'
sed -i '/^object/,$d' work/unfinished/list
unfinished 'work/unfinished/list ends too early'
sed -i '/^answer/d' work/unfinished/list
unfinished 'work/unfinished/list ends too early'
: >work/unfinished/list
unfinished 'list:1:1: error: found ``'
head -c 3000 /dev/urandom >work/unfinished/list
unfinished 'error: found `'
echo mine >work/kernels/notes.txt
unfinished 'work/kernels/notes.txt was not written by llmc'

run finish later
same_folders first later
run finish later
grep -q 'later is finished' err || bad 'finished, and it says nothing'
refused 'cannot read nowhere: No such file' finish nowhere
mkdir empty
refused "empty is not the folder of a plan" finish empty

# ---- into a folder that is there ----

plan over --target a100-sxmx2 --pin tp=2 --no-whole
echo old >later/kernels/old.cu
plan later --target a100-sxmx2 --pin tp=2 --no-whole
same_folders later over
echo mine >later/kernels/notes.txt
cp -R later before
refused 'later/kernels/notes.txt was not written by llmc' -w --target h100x2 --pin tp=2 \
	-o later "$model"
same_folders before later
exit $failed
