#!/bin/sh
# runs.sh LLMC DATA: print passes/answer/runs.def, from the published training
# runs in the folder DATA and what LLMC predicts of them.
set -eu
cat <<'END'
/*
 * RUN(source, generation of its devices, split, length of a sequence, scores of
 * attention, what it took over what is predicted of it): the published training
 * runs of tests/data, as answer_accuracy.c reads them.
 *
 * Written by `make update-runs', which runs runs.sh; tests/cli/search/runs.sh
 * holds it to what llmc predicts.  Rows that contradict themselves are left
 * out: train-wrong.tsv has them, each with the reason.
 */
END
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
for file in train train-more train-titan; do
	awk -F '\t' 'NR == FNR { wrong[$1] = 1; next }
		FNR == 1 || !($1 in wrong)' "$2/train-wrong.tsv" \
		"$2/$file.tsv" >"$rows"
	"$1" validate --residuals "$rows"
done
