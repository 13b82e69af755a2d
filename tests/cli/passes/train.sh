#!/bin/sh
# eval --steps: the loss falls, twice the same is the same, a bf16 model with
# clipping and a schedule trains too, and what cannot train is refused.
. "${top_srcdir:?}/tests/lib.sh"

for model in tiny-dense tiny-moe; do
	file=$examples/$model.llm
	run eval "$file" --seed 1 --steps 4
	mv out a
	run eval "$file" --seed 1 --steps 4
	cmp out a || bad "$model: two runs differ"
	# the first loss is that of the model as it is
	"$LLMC" eval "$file" --seed 1 | sed 's/^/step 1 /' >first
	head -n 1 a | cmp - first || bad "$model: another first loss"
	awk 'NR > 1 && $4 >= last { exit 1 } { last = $4 } END { exit NR != 4 }' \
		a || bad "$model: the loss does not fall: $(cat a)"
	sed 's/dtype f32/dtype bf16/; s/batch = 4;/batch = 2; clip = 1; steps = 4;/
		s/^train {/&\n  schedule = cosine(warmup = 2, min_lr = 1e-4);/' \
		"$file" >bf16.llm
	run eval bf16.llm --steps 4
	[ "$(wc -l <out)" -eq 4 ] || bad "$model: not four steps in bf16"
done

# What is rebuilt is what was saved, to the last bit, from fewer bytes: under
# `full`, one activation a layer.
for model in tiny-dense tiny-moe; do
	file=$examples/$model.llm
	for what in none attention full; do
		sed "s/^  dtype f32;/&\n  recompute $what;/" "$file" >$what.llm
		run eval $what.llm --steps 3
		mv out $what
		cmp $what none || bad "$model: $what is another training"
	done
	none=$(saved none.llm)
	attention=$(saved attention.llm)
	full=$(saved full.llm)
	# batch * seq * hidden * 4 bytes * 2 layers
	hidden=$(sed -n 's/.*dim layers = 2, hidden = \([0-9]*\).*/\1/p' "$file")
	if [ "$full" -ne $((4 * 16 * hidden * 4 * 2)) ] ||
	   [ "$attention" -ge "$none" ] || [ "$full" -ge "$attention" ]; then
		bad "$model: saved bytes none $none, attention $attention," \
			"full $full"
	fi
done

refused '1 to 1000000 is legal' eval --steps 0 "$file"
refused 'applies to one evaluation' eval --steps 2 --checksum all "$file"
refused 'no layer `update`' eval --steps 2 --passes=default "$file"
sed '/^train/,$d' "$file" >none.llm
refused 'is adamw, sgd, lion, adafactor or muon, and none is set' eval --steps 2 none.llm
exit $failed
