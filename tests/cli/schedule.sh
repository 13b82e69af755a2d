#!/bin/sh
# llmc schedule: named schedules are printed, read back the same, and summed
# up; a file that cannot run is refused with the action that cannot.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99

for name in gpipe 1f1b interleaved zb_h1 zb_h2 zbv; do
	"$LLMC" schedule "$name" --ranks 3 --microbatches 7 -o "$name.csv" &&
	"$LLMC" schedule "$name.csv" | cmp - "$name.csv" || exit 1
done
"$LLMC" schedule 1f1b --summary >sum || exit 1
grep -q '^bubble 0.2727 ' sum && grep -q '^rank 0: .* at most 4 ' sum || {
	cat sum
	exit 1
}

# refused PATTERN ARGUMENTS...
refused()
{
	pattern=$1
	shift
	"$LLMC" schedule "$@" >out 2>err
	status=$?
	if [ $status -ne 1 ] || [ -s out ] || ! grep -q "$pattern" err; then
		echo "$*: exit $status, and \"$pattern\" is expected in:"
		cat err
		exit 1
	fi
}

refused 'did you mean .1f1b.' 1f1c
refused '2' zbv --chunks 3
refused 'goes with the name of a schedule' --ranks 2 1f1b.csv
refused '.' 1f1b --ranks 100000000000
sed 's/0F1/0B1/' 1f1b.csv >bad.csv
refused 'bad.csv:1:' bad.csv
