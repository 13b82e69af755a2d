#!/bin/sh
# docs.sh PAGE.md: is what the page shows what llmc does?
#
# Fenced blocks are distinguished by the first word after the fence:
#   llm        compiles
#   llm-error  is refused, with exit status 1
#   ir         is read, and printed again byte for byte
#   console    each `$ llmc ...' is run as from the top of the sources, and
#              what follows it is what it prints; a line `...' there stands
#              for any number of lines. Other commands are left alone.
set -u

page=$1
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
mkdir "$tmp/bin" "$tmp/top" "$tmp/blocks" || exit 99
NO_COLOR=1
PATH=$tmp/bin:$PATH
export NO_COLOR PATH
ln -s "$LLMC" "$tmp/bin/llmc"

# The top as commands see it: the same names, but a folder to write into.
for entry in "${top_srcdir:?}"/*; do
	ln -s "$entry" "$tmp/top/"
done

# No page runs the kernels that it makes: on three of four days the NVRTC of the
# tests keeps them as text, in half of the page's time.
if grep -q '^\$ llmc .*--target h100.* -o ' "$page" &&
	test "${SLOW_TESTS-}" != 1 &&
	test $((${TESTS_DAY:-$(($(date +%s) / 86400))} % 4)) -ne 0; then
	LLMC_NVRTC=$tmp/nvrtc.so
	export LLMC_NVRTC
	# shellcheck disable=SC2086 # CC may hold options
	${CC:-cc} -shared -fPIC -o "$LLMC_NVRTC" \
		"$top_srcdir/tests/fakes/fake-nvrtc.c" || unset LLMC_NVRTC
fi

# blocks/LINE.KIND; in a console, LINE.command and LINE.expected.
awk -v dir="$tmp/blocks" '
function open_block(kind)
{
	close_block()
	out = sprintf("%s/%05d.%s", dir, line, kind)
	printf "" >out
}
function close_block()
{
	if (out != "")
		close(out)
	out = ""
}
!inside && /^```/ {
	inside = 1
	line = FNR
	kind = $0
	sub(/^```+[ \t]*/, "", kind)
	sub(/[ \t{,].*/, "", kind)
	if (kind ~ /^(llm|llm-error|ir)$/)
		open_block(kind)
	next
}
inside && /^```[ \t]*$/ {
	inside = more = 0
	close_block()
	next
}
kind == "console" && inside && (more || /^\$ /) {
	if (!more) {
		line = FNR
		close_block()
		if (!/^\$ llmc( |$)/)
			next
		open_block("command")
		sub(/^\$ /, "")
	}
	print >out
	more = /\\$/
	if (!more)
		open_block("expected")
	next
}
inside && out != "" { print >out }
' "$page"

# matches EXPECTED ACTUAL: line by line, `...' being any number of lines.
matches()
{
	awk '
	BEGIN { n = m = 0 }
	FILENAME == ARGV[1] { want[++n] = $0; next }
	{ got[++m] = $0 }
	END {
		# ok[j]: the lines of want so far can end at line j of got.
		ok[0] = 1
		for (i = 1; i <= n; i++) {
			any = 0
			for (j = 0; j <= m; j++) {
				any = any || ok[j]
				if (want[i] == "...")
					next_ok[j] = any
				else
					next_ok[j] = j > 0 && ok[j - 1] &&
						want[i] == got[j]
			}
			for (j = 0; j <= m; j++)
				ok[j] = next_ok[j]
		}
		exit !ok[m]
	}' "$1" "$2"
}

bad=0
count=0
fail()
{
	printf '%s:%d: %s\n' "$page" "$line" "$1"
	bad=1
}

cd "$tmp/top" || exit 99
for block in "$tmp"/blocks/*; do
	test -f "$block" || continue
	kind=${block##*.}
	line=$(basename "$block" ".$kind" | sed 's/^0*//')
	status=0
	case $kind in
	llm | llm-error)
		timeout 600 llmc --emit=ir -o /dev/null - <"$block" \
			>"$tmp/got" 2>&1 || status=$?
		want=0
		test "$kind" = llm || want=1
		if test $status -ne $want; then
			fail "this block exits with status $status, not $want"
			cat "$tmp/got"
		fi
		;;
	ir)
		timeout 600 llmc opt --emit=ir - <"$block" >"$tmp/got" \
			2>"$tmp/err" || status=$?
		if test $status -ne 0; then
			fail "this block exits with status $status, not 0"
			cat "$tmp/err"
		elif ! diff -u --label "$page" --label llmc \
			"$block" "$tmp/got"; then
			fail 'this block does not print as it stands here'
		fi
		;;
	command)
		timeout 600 sh "$block" </dev/null >"$tmp/got" 2>&1 || status=$?
		if test $status -ge 99; then
			fail "this command exits with status $status"
			cat "$tmp/got"
		elif ! matches "${block%.command}.expected" "$tmp/got"; then
			fail 'this command prints something else'
			diff -u --label "$page" --label llmc \
				"${block%.command}.expected" "$tmp/got"
		fi
		;;
	*)
		continue
		;;
	esac
	count=$((count + 1))
done
echo "$page: $count blocks"
exit $bad
