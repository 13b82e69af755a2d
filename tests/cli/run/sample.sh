#!/bin/sh
# Sampling: the same tokens under any plan of the model, among them one whose
# microbatch is one sequence, which is made for it.
. "${top_srcdir:?}/tests/lib.sh"
need binaries llvm linker

# so small that to compute is not what takes time
model=small.llm
sed 's/hidden = 128/hidden = 32/' "$examples/gpt-bytes.llm" >$model
run -w --draft --no-whole --target cpux1 -o train "$model"
grep -q '1 microbatch of 16' out || bad 'the first plan has another microbatch'
run -w --draft --no-whole --target cpux1 --pin microbatch=1 -o one "$model"
run -w --draft --no-whole --target cpux4 --pin tp=2,pp=2,microbatch=1 \
	-o four "$model"
LC_ALL=C tr -cd '\11\12\40-\176' <"$top_srcdir/docs/running.md" >text.md
train/rank train --data text.md --steps 2 --checkpoint ck >out 2>err ||
	bad 'training'
echo 'A plan is' >prompt
for temperature in 0 1; do
	for seed in 0 7; do
		for plan in train one four; do
			$plan/rank sample --local --checkpoint ck --tokens 12 \
				--prompt-file prompt --seed $seed \
				--temperature $temperature >text.$plan \
				2>err || bad "sample: $plan"
			grep -q 'each token takes the forward of 16 ' err
			case $?-$plan in
			0-train | 1-one | 1-four) ;;
			*) bad "$plan: the wrong note, or none" ;;
			esac
		done
		for plan in one four; do
			cmp text.train text.$plan ||
				bad "$plan: other tokens, seed $seed"
		done
		cp text.one text.$temperature.$seed
	done
done
cmp -s text.1.0 text.1.7 && bad 'the seed makes no difference'
cmp -s text.0.0 text.0.7 || bad 'the likeliest depends on the seed'
exit $failed
