#!/bin/sh
# llmc --report: one HTML file that is well formed, loads nothing, fits 2 MB for
# a large cluster, and is the same each time; what a user wrote is text in it.
# Where there is a browser, the page tests itself there.
. "${top_srcdir:?}/tests/lib.sh"

# well_formed FILE: every element ends, in its parent, and once.
well_formed()
{
	tr '\n' ' ' <"$1" | sed 's/<!DOCTYPE html>//
		s/<style>[^<]*<\/style>//g
		s/<script>.*<\/script>//' |
	awk 'BEGIN { RS = "<" }
	NR > 1 {
		if (!index($0, ">")) { print "no end: " $0; exit 1 }
		tag = substr($0, 1, index($0, ">") - 1)
		rest = substr($0, index($0, ">") + 1)
		if (index(rest, ">")) { print "stray >: " $0; exit 1 }
		if (tag ~ /\/$/) next
		name = tag
		sub(/^\//, "", name)
		sub(/[ ].*/, "", name)
		if (tag !~ /^\//) open[++n] = name
		else if (open[n--] != name) { print "ends: " tag; exit 1 }
	}
	END { if (n) { print n " open"; exit 1 } }' || bad "$1 is not well formed"
	# attributes are quoted and hold no markup; nothing is loaded
	test "$(grep -c '<script' "$1")" = 1 || bad "$1 has other scripts"
	! grep -qE '(src|href)="[^#]|url\(|@import|https?://' "$1" ||
		test "$(grep -oE '(src|href)="[^#]|url\(|@import|https?://[^"]*' \
			"$1" | sort -u)" = http://www.w3.org/1999/xhtml ||
		bad "$1 loads something"
}

browser=
for name in chromium chromium-browser google-chrome; do
	command -v $name >/dev/null 2>&1 && browser=$name && break
done

# works FILE: every item of its pictures can be reached and says something.
works()
{
	for width in 1280 500; do
		test -z "$browser" || timeout 100 $browser --headless \
			--no-sandbox --disable-gpu --user-data-dir="$tmp/browser" \
			--window-size=$width,900 --dump-dom \
			"file://$tmp/$1#check" >dom 2>/dev/null
		test -z "$browser" || ! grep -q '</html>' dom ||
			grep -q 'data-check="ok, [1-9][0-9]* items"' dom ||
			bad "$1: $(grep -o 'data-check="[^"]*"' dom)"
	done
}

run --target h100x4 --pin pp=2,tp=2 "$examples/tiny-moe.llm"
cp out answer
run --target h100x4 --pin pp=2,tp=2 "$examples/tiny-moe.llm" \
	--report report.html
cmp out answer || bad 'a report changes the answer'
well_formed report.html
for id in time timeline memory roofline comm plans mesh; do
	grep -q "<figure id=\"$id\">" report.html || bad "no picture $id"
done
test "$(grep -c 'class="track i"' report.html)" = 3 ||
	bad 'not a row for each place, and one of memory'
grep -q 'on the front: ' report.html || bad 'no plan on the front'
grep -q 'device 3, rank 3: place 1 of the pipeline; pp 1, tp 1' report.html ||
	bad 'no mesh'
works report.html
run --target h100x4 --pin pp=2,tp=2 "$examples/tiny-moe.llm" \
	--report again.html
cmp report.html again.html || bad 'the second report differs'

# Names of a user are text: of a file, and of a weight.
evil=$(printf 'a<script>&"\047\377.llm')
sed 's/@ "model.norm"/@ "<script>\&amp;x"/' "$examples/tiny-dense.llm" >"$evil"
run --target h100x2 "$evil" --report evil.html
well_formed evil.html
grep -q 'lt;script&gt;&amp;amp;x' evil.html || bad 'where is the weight?'

# A large cluster: equal nodes once, places and actions as paths.
run --target h100x8x2048 --pin pp=16,dp=64,cp=4,tp=4,microbatch=1 \
	--pin interleave=4,zero=1,schedule=interleaved \
	"$examples/llama-3.1-405b.llm" --report large.html
well_formed large.html
test "$(wc -c <large.html)" -lt 2000000 || bad 'more than 2 MB'
test "$(grep -c '<div class="node">' large.html)" = 16 ||
	bad 'equal nodes are drawn several times'

# A step of very many actions is drawn in two windows, of many places some.
run --target h100x8x8 --pin pp=64,microbatch=1,schedule=gpipe,dp=1 \
	--dim batch=16384 --dim layers=64 "$examples/tiny-dense.llm" \
	--report long.html
well_formed long.html
test "$(wc -c <long.html)" -lt 2000000 || bad 'more than 2 MB'
grep -q 'the first 16 and the last 16 are drawn' long.html &&
	grep -q ' between are not drawn' long.html ||
	bad 'all of a long step is drawn'

# With a plan that is given there are no candidates, and all else is there.
run --emit=plan --target h100x4 --pin pp=2,tp=2 "$examples/tiny-moe.llm" \
	-o plan.llp
run --target h100x4 --plan plan.llp "$examples/tiny-moe.llm" --report given.html
well_formed given.html
grep -q 'there was no search' given.html || bad 'a search without one'

refused '--report needs --target' --report r.html "$examples/tiny-moe.llm"
refused 'takes the name of a file, such as report.html, found `-`' \
	--target h100x2 --report - "$examples/tiny-moe.llm"
refused '--trace and --report are both written into `r`' \
	--target h100x2 --trace r --report r "$examples/tiny-moe.llm"
refused '--report is about the answer, which is not what is written' \
	--target h100x2 --emit=plan --report r.html "$examples/tiny-moe.llm"
refused 'cannot write no/r.html' --target h100x2 --report no/r.html \
	-o answer.txt --emit=answer "$examples/tiny-moe.llm"
# before it costs anything
refused 'cannot write no/r.html' --target rtx4090x1 --report no/r.html \
	"$examples/llama-2-70b.llm"
test ! -e r.html && test ! -e answer.txt || bad 'a refused run left a report'
exit $failed
