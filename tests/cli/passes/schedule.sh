#!/bin/sh
# llmc schedule: named schedules are printed, read back the same, and summed
# up; a file that cannot run is refused with the action that cannot.
. "${top_srcdir:?}/tests/lib.sh"

for name in gpipe 1f1b interleaved zb_h1 zb_h2 zbv; do
	run schedule $name --ranks 3 --microbatches 7 -o $name.csv
	run schedule $name.csv
	cmp out $name.csv || bad "$name reads back otherwise"
done
run schedule 1f1b --summary
grep -q '^bubble 0.2727 ' out && grep -q '^rank 0: .* at most 4 ' out ||
	bad 'another summary'

run --list-schedules
test "$(grep -c . out)" -ge 6 && grep -q '^zbv  *no bubble' out ||
	bad '--list-schedules leaves some out'
refused 'did you mean `1f1b`' schedule 1f1c
# What is no name is no file either: the name is at fault, not an option.
refused 'there is no schedule `zb-v` (did you mean `zbv`?)' \
	schedule zb-v --ranks 4
refused 'no file of that name can be read: ' schedule none.csv --chunks 2
refused '2 stages per rank, found 3' schedule zbv --chunks 3
refused 'applies to a schedule by name' schedule --ranks 2 1f1b.csv
refused 'expected 1 to 4096' schedule 1f1b --ranks 100000000000
sed 's/0F1/0B1/' 1f1b.csv >bad.csv
refused 'bad.csv:1:' schedule bad.csv
exit $failed
