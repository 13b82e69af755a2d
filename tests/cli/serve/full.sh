#!/bin/sh
# A program for a device whose memory the cache fills: how much kernels leave for
# each other is known when they are emitted, and then it has fewer slots, if the
# user does not say how many.
. "${top_srcdir:?}/tests/lib.sh"
need llvm nvrtc linker binaries compiler
fake_nvrtc || fail 'no NVRTC of the tests'

# Products along 32768 numbers are made in parts, which are then added up.
sed 's/layers = 16, hidden = 2048, heads = 32, kv = 8/layers = 1, hidden = 512, heads = 4, kv = 4/
	s/ffn = 8192, vocab = 128256, seq = 8192/ffn = 32768, vocab = 512, seq = 2048/' \
	"$examples/llama-3.2-1b.llm" >wide.llm
"$LLMC" target rtx4090x1 | sed 's/memory = 24;/memory = 1.02;/' >full.target
LLMC_LINKER="$linker -O0 -Wl,-E"
export LLMC_LINKER

run --serve --target ./full.target wide.llm
foreseen=$(sed -n 's/^cache *\([0-9]*\) tokens.*/\1/p' out)
run --serve --draft --target ./full.target wide.llm -o full
mv out answer
./full/rank inspect >inspect || fail 'inspect'
arena=$(sed -n 's/^ *arena *\([0-9]*\) bytes$/\1/p' inspect)
[ "$arena" -le 120000000 ] || fail "an arena of $arena bytes, of 120000000"
keys=$(sed -n 's/^ *input *key\[keys=\([0-9]*\)\]$/\1/p' inspect)
[ "$keys" -lt "$foreseen" ] || fail "$keys slots, of $foreseen: it had room"
[ $((arena + 2048 * 128)) -gt 120000000 ] || fail "too few slots: $arena bytes"

# The answer says what the program has, and so does what is kept with it.
had=$(sed -n 's/^cache *\([0-9]*\) tokens.*/\1/p' answer)
[ "$had" -ge "$keys" ] && [ "$had" -lt $((keys + 128)) ] ||
	fail "an answer of $had tokens, and a program of $keys"
grep -q "^program .*; cache of $keys;\$" answer || fail 'slots of the program'
grep -q "\"slots\": $keys," full/plan.json || fail 'slots in plan.json'
short=$(sed -n 's/^memory .* workspace \([0-9.]*\),.*/\1/p' answer)
made=$(sed -n 's/^  *of a device .* workspace \([0-9.]*\),.*/\1/p' answer)
[ "$short" = "$made" ] || fail "a workspace of $made GB, and $short foreseen"

# Other splits that were tried are still there, and what --why-not has is no
# better for not knowing what the program needs.
sed 's/ffn = 32768/ffn = 65536/' wide.llm >wider.llm
"$LLMC" target rtx4090x2 | sed 's/memory = 24;/memory = 1.02;/' >two.target
run --serve --target ./two.target wider.llm
foreseen2=$(sed -n 's/^cache *\([0-9]*\) tokens.*/\1/p' out)
run --serve --draft --target ./two.target --why-not tp=2 wider.llm -o two
grep -q '^split  *tp=2, the best of 2$' out || fail 'splits that were tried'
[ "$(sed -n 's/^cache *\([0-9]*\) tokens.*/\1/p' out)" -lt "$foreseen2" ] ||
	fail 'two devices had room'
grep -q '^tokens/s of a device .* +0.0%$' out || fail 'the same split twice'

# As many as the user says are not made fewer.
ends 1 'the program that serves cannot be made' --serve --draft \
	--target ./full.target --workload slots="$foreseen" wide.llm -o asked
[ ! -e asked ] || fail 'a folder is left'
exit $failed
