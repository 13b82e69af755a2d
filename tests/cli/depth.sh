#!/bin/sh
# A repeat stays a loop: the IR of 2 layers and of 1,000,000 layers is the
# same text but for the count, through every pass.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT

for layers in 2 1000000; do
	sed "s/layers = 126/layers = $layers/" \
		"${top_srcdir:?}/examples/llama-3.1-405b.llm" >"$tmp/$layers.llm"
	"$LLMC" --emit=ir "$tmp/$layers.llm" >"$tmp/$layers.ir" || exit 1
	"$LLMC" --emit=ir --passes=default "$tmp/$layers.llm" \
		>"$tmp/$layers.flat.ir" || exit 1
done
for kind in ir flat.ir; do
	sed 's/\b1000000\b/2/' "$tmp/1000000.$kind" | cmp - "$tmp/2.$kind" ||
		exit 1
done
