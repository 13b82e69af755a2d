#!/bin/sh
# eval --steps: the loss falls, twice the same is the same, a bf16 model with
# clipping and a schedule trains too, and what cannot train is refused.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT

for model in tiny-dense tiny-moe; do
	file=${top_srcdir:?}/examples/$model.llm
	"$LLMC" eval "$file" --seed 1 --steps 4 >"$tmp/a" || exit 1
	"$LLMC" eval "$file" --seed 1 --steps 4 | cmp - "$tmp/a" || exit 1
	# the first loss is that of the model as it is
	"$LLMC" eval "$file" --seed 1 | sed 's/^/step 1 /' >"$tmp/first"
	head -n 1 "$tmp/a" | cmp - "$tmp/first" || exit 1
	awk 'NR > 1 && $4 >= last { exit 1 } { last = $4 } END { exit NR != 4 }' \
		"$tmp/a" || {
		echo "$model: the loss does not fall:"
		cat "$tmp/a"
		exit 1
	}
	sed 's/dtype f32/dtype bf16/; s/batch = 4;/batch = 2; clip = 1; steps = 4;/
		s/^train {/&\n  schedule = cosine(warmup = 2, min_lr = 1e-4);/' \
		"$file" >"$tmp/bf16.llm"
	"$LLMC" eval "$tmp/bf16.llm" --steps 4 >"$tmp/b" || exit 1
	[ "$(wc -l <"$tmp/b")" -eq 4 ] || exit 1
done

# What is rebuilt is what was saved, to the last bit, from fewer bytes: under
# `full`, one activation a layer.
saved()
{
	"$LLMC" --passes=train --verify-each --emit=summary-json "$1" |
		sed -n 's/.*"saved_bytes": *\([0-9]*\).*/\1/p'
}
for model in tiny-dense tiny-moe; do
	file=${top_srcdir:?}/examples/$model.llm
	for what in none attention full; do
		sed "s/^  dtype f32;/&\n  recompute $what;/" "$file" \
			>"$tmp/$what.llm"
		"$LLMC" eval "$tmp/$what.llm" --steps 3 >"$tmp/$what" || exit 1
		cmp "$tmp/$what" "$tmp/none" || exit 1
	done
	none=$(saved "$tmp/none.llm")
	attention=$(saved "$tmp/attention.llm")
	full=$(saved "$tmp/full.llm")
	# batch * seq * hidden * 4 bytes * 2 layers
	hidden=$(sed -n 's/.*dim layers = 2, hidden = \([0-9]*\).*/\1/p' "$file")
	if [ "$full" -ne $((4 * 16 * hidden * 4 * 2)) ] ||
	   [ "$attention" -ge "$none" ] || [ "$full" -ge "$attention" ]; then
		echo "$model: saved bytes none $none, attention $attention," \
			"full $full"
		exit 1
	fi
done

# refused PATTERN ARGUMENTS...
refused()
{
	pattern=$1
	shift
	if "$LLMC" eval "$@" >"$tmp/out" 2>"$tmp/err" || [ -s "$tmp/out" ] ||
	   ! grep -q "$pattern" "$tmp/err"; then
		echo "$*: \"$pattern\" is expected in:"
		cat "$tmp/err"
		exit 1
	fi
}

refused '1 to 1000000 is legal' --steps 0 "$file"
refused 'goes with one evaluation' --steps 2 --checksum all "$file"
refused 'no layer .update.' --steps 2 --passes=default "$file"
sed '/^train/,$d' "$file" >"$tmp/none.llm"
refused 'is adamw or sgd, and none is set' --steps 2 "$tmp/none.llm"
