#!/bin/sh
# The countable part of the house style: 80 columns, tabs, files of at most
# 1,000 lines, functions of at most 100 (a warning from 60 on) with their name
# in the first column, and a build that does not depend on the date.
set -eu
cd "${top_srcdir:?}"
LC_ALL=C
export LC_ALL

find ir passes frontend codegen runtime tests examples -type f \
	\( -name '*.[chyl]' -o -name '*.def' \) \
	! -path frontend/lang/parser.c ! -path frontend/lang/parser.h \
	! -path frontend/lang/lexer.c ! -path frontend/lang/target_files.c \
	! -path passes/pictures/picture_texts.c \
	! -path codegen/cuda/prelude_text.c -print | sort |
xargs awk "$(cat tests/code.awk)"'
function bad(why)
{
	printf "%s:%d: %s\n", FILENAME, FNR, why
	failed = 1
}
function end_of_file()
{
	if (lines > 1000) {
		printf "%s: %d lines, at most 1000\n", file, lines
		failed = 1
	}
}
function columns(s,    parts, n, i, w)
{
	gsub(/[\200-\277]/, "", s)
	n = split(s, parts, "\t")
	w = length(parts[1])
	for (i = 2; i <= n; i++)
		w = w - w % 8 + 8 + length(parts[i])
	return w
}
# How many parentheses are open behind this, if n were before.
function parentheses(n, s)
{
	while (match(s, /[()]/)) {
		if (substr(s, RSTART, 1) == "(")
			n++
		else if (n > 0)
			n--
		s = substr(s, RSTART + 1)
	}
	return n
}
FNR == 1 {
	end_of_file()
	file = FILENAME
	comment = depth = start = in_macro = 0
	name = ""
}
{
	lines = FNR
	was_comment = comment
	was_depth = depth
	was_macro = in_macro
	text = code($0)
	depth = parentheses(depth, text)
	in_macro = $0 ~ /\\$/
}
columns($0) > 80 { bad("wider than 80 columns") }
/[ \t]$/ { bad("space at the end") }
/__DATE__|__TIME__/ { bad("the build must not depend on the date") }
/^ *\t* *        / || /^\t* +\t/ { bad("indented with spaces, not tabs") }
# Short of a tab, spaces line up what continues a line, or a comment.
/^ +[^ \t]/ && !/^ \*/ && !was_comment && !was_macro && was_depth == 0 {
	bad("indented with spaces, not tabs")
}
was_comment || was_macro { next }
start == 0 && text ~ /^[A-Za-z_][A-Za-z0-9_]*\(/ {
	name = text
	sub(/\(.*/, "", name)
	first = FNR
}
text ~ /^[{}]/ { depth = 0 }
start == 0 && text ~ /^[^ \t#].*[;}][ \t]*$/ { name = "" }
start == 0 && text ~ /^{/ {
	if (name == "" && FILENAME ~ /\.[ch]$/)
		bad("no function name in the first column above this")
	start = name == "" ? FNR : first
}
start > 0 && text ~ /^}/ {
	n = FNR - start + 1
	if (n > 100)
		bad(name "() has " n " lines, at most 100")
	else if (n > 60)
		printf "%s:%d: warning: %s() has %d lines\n", \
			FILENAME, FNR, name, n
	start = 0
	name = ""
}
END {
	end_of_file()
	exit failed
}
'
