#!/bin/sh
# Command lines that a new user types wrongly: what is said is about the word
# that is wrong, and no word is without effect in silence.
. "${top_srcdir:?}/tests/lib.sh"
cp "$examples/tiny-dense.llm" model.llm

# An option stands where a value should.
misused '`--why-not` needs K=V,.., and `--target` is an option; such a value' \
	--why-not --target h100x8 model.llm
misused 'such a value is written --target=--pin' \
	--target --pin tp=2 model.llm
misused '`-o` needs ' model.llm -o --target h100x8
refused '--why-not:1:1: error: a plan has no `--target`' \
	--why-not=--target=2 --target h100x8 model.llm

# The file was taken for a value.
misused 'no input file: `model.llm` is the value of --target' --target model.llm
misused 'no input file: `model.llm` is the value of --pin' --pin model.llm
misused '`llmc schedule` takes the name of a schedule, such as 1f1b' schedule
misused '`llmc target` takes the name of a target, such as h100x8' target
misused 'no input file (see llmc --help)' --target h100x8

# One dash.
misused 'no option `-target` (did you mean `--target`?)' \
	-target h100x8 model.llm
misused 'no option `-pin=tp=2` (did you mean `--pin=tp=2`?)' \
	-pin=tp=2 model.llm
misused 'there is no option `-q` (see llmc --help)' -qq model.llm
misused 'no option `--taget` (did you mean `--target`?)' --taget h100 model.llm

# What has no effect where it stands.
options='tokens=2T storage=2 restart=3'
have time || options=storage=2
for option in $options; do
	for emit in ir summary cost plan; do
		refused "--${option%=*} is about the answer, which is not what is" \
			--target h100x8 --emit=$emit --$option model.llm
	done
	run --target h100x8 --emit=answer-json --$option model.llm
	run --target h100x8 --$option model.llm
done
refused '--pin sets a plan, and a summary of the model has none: add' \
	--pin tp=2 model.llm
run --pin tp=2 --emit=plan model.llm -o tp2.llp
refused '--plan sets a plan, and a summary of the model has none: add' \
	--plan tp2.llp model.llm

# What is legal is listed, with what is nearest.
refused 'no dim `btach` (did you mean `batch`?): there are layers, hidden, ' \
	--dim btach=4 model.llm
misused '`answer,ir` (did you mean `answer`?)' --emit=answer,ir model.llm
refused 'a plan has no `TP` (did you mean `tp`?): there are mesh, pp,' \
	--pin TP=2 --target h100x8 model.llm
exit $failed
