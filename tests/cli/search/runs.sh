#!/bin/sh
# The ratios of passes/answer/runs.def, which the interval of the answer is made
# of, are those of the committed measurements and of this cost model.
. "${top_srcdir:?}/tests/lib.sh"

answer=$top_srcdir/passes/answer
sh "$answer/runs.sh" "$LLMC" "$tests/data" >runs.def ||
	bad 'the runs are not predicted'
cmp "$answer/runs.def" runs.def ||
	bad 'passes/answer/runs.def is old: make update-runs'
refused '--residuals is for training runs, and this is a table of kernels' \
	validate --residuals "$tests/data/kernels.tsv"
exit $failed
