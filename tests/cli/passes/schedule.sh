#!/bin/sh
# llmc schedule: named schedules are printed, read back the same, drawn, and
# summed up; a file that cannot run is refused with the action that cannot.
. "${top_srcdir:?}/tests/lib.sh"

for name in gpipe 1f1b interleaved zb_h1 zb_h2 zbv; do
	run schedule $name --ranks 3 --microbatches 7 -o $name.csv
	run schedule $name.csv --csv
	cmp out $name.csv || bad "$name reads back otherwise"
done
run schedule 1f1b --summary
grep -q '^bubble 0.2727 ' out && grep -q '^rank 0: .* at most 4 ' out ||
	bad 'another summary'

# A drawing says where each action lies, within 80 columns; so does a picture.
run schedule zbv --ranks 3 --microbatches 12
test "$(awk '{ if (length > w) w = length } END { print w }' out)" -le 80 ||
	bad 'a drawing is wider than 80 columns'
test "$(grep -o '[0-5][FIW][0-9]*' out | sort -u | wc -l)" = $((6 * 3 * 12)) ||
	bad 'a drawing lacks actions'
run schedule gpipe --ranks 200 --microbatches 300
test "$(wc -l <out)" -lt 700 && grep -q '^.. .* ranks more$' out &&
	grep -q '^[0-9]* steps more, which --csv has$' out ||
	bad 'a long drawing is not cut short'
run schedule zbv --ranks 3 --microbatches 12 --svg
test "$(grep -c '<g><title>[0-5][FIW][0-9]*: ' out)" = $((6 * 3 * 12)) ||
	bad 'a picture lacks actions'
cp out picture
run schedule zbv --ranks 3 --microbatches 12 -o by-name.svg
cmp by-name.svg picture || bad 'a file named .svg is no picture'
run schedule gpipe --ranks 200 --microbatches 300 --svg
grep -q '<path class="B" d="M' out || bad 'a large picture has no paths'
refused '--csv and --svg are two forms of one output' \
	schedule 1f1b --csv --svg

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
refused 'found 100000000000 ranks, expected 1 to 4096' \
	schedule 1f1b --ranks 100000000000
refused 'found 99999999 microbatches, expected 1 to 1048576' \
	schedule 1f1b --microbatches 99999999
sed 's/0F1/0B1/' 1f1b.csv >bad.csv
refused 'bad.csv:1:' schedule bad.csv
exit $failed
