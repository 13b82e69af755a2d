#!/bin/sh
# --dim gives a dim another size, as if the model had been written so.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/llama-2-70b.llm

sed 's/layers = 80,/layers = 3,/; s/batch = 1024/batch = 8/' "$model" \
	>model.llm
run --emit=summary model.llm -o want
run --emit=summary --dim layers=3 --dim=batch=8 "$model"
cmp out want || bad 'as written it is another model'

refused 'no dim `hiden` (did you mean `hidden`?)' --dim hiden=4 "$model"
refused 'is not a multiple of `kv` = 5' --dim kv=5 "$model"
refused '8192 / 7 does not divide evenly' --dim heads=7 "$model"
misused 'a whole number N of at least 1; found `layers=0`' --dim layers=0 "$model"
run --emit=ir "$model" -o model.ir
refused 'is IR text' --dim layers=3 model.ir
exit $failed
