#!/bin/sh
# Compilers differ in which argument of a call they evaluate first, and so
# would what llmc writes, if two of them left something behind: of what one
# call is given (or one operator combines, or one initializer lists) at most
# one call may emit code or make nodes.
#
# A function does if its first parameter is a pointer to a struct that is not
# const, or if it gives a struct ll_value; constants have no place in the code,
# and arenas and buffers show none.
set -eu
cd "${top_srcdir:?}"
LC_ALL=C
export LC_ALL

files=$(find ir passes frontend codegen -type f -name '*.[ch]' \
	! -path frontend/lang/parser.c ! -path frontend/lang/parser.h \
	! -path frontend/lang/lexer.c ! -path frontend/lang/target_files.c \
	! -path passes/pictures/picture_texts.c \
	! -path codegen/cuda/prelude_text.c -print | sort)

# Read twice: once for what functions there are, once for what calls.
# shellcheck disable=SC2086 # a list of files
awk "$(cat tests/code.awk)"'
# Is the function that is declared in this line one that leaves something?
function learn(s, above,    name, type, fixed, gives)
{
	if (s ~ /^[\t ]/ ||
	    !match(s, /[A-Za-z_][A-Za-z0-9_]*\((const )?struct [a-z0-9_]+ \*/))
		return
	gives = RSTART > 1 ? substr(s, 1, RSTART - 1) : above
	type = name = substr(s, RSTART)
	sub(/\(.*/, "", name)
	sub(/^[^(]*\(/, "", type)
	fixed = sub(/^const /, "", type)
	sub(/^struct /, "", type)
	sub(/ .*/, "", type)
	if (fixed && gives !~ /struct ll_value \*$/)
		return
	if (gives ~ /(void|const char \*) *$/ || type ~ /^(arena|buf)$/ ||
	    name ~ /^(ll_(i64|int|num|null|zero|undef|iota|param|typeof))$/ ||
	    name ~ /^(alignment|i32_of|in|in_block|num|whole)$/)
		return
	leaves[FILENAME ~ /\.h$/ ? name : FILENAME ":" name] = 1
}
# One that leaves something, within what is open at this depth.
function event(name)
{
	if (before[top] || now[top]) {
		printf "%s:%d: %s() is called, or is not, before another " \
			"call in the same expression\n", FILENAME, FNR, name
		failed = 1
	}
	now[top] = all[top] = name
}
function open(t, last,    is_call)
{
	is_call = last ~ /^[A-Za-z_]/ &&
		last !~ /^(if|while|for|switch|return|sizeof|case|do|else)$/
	top++
	kind[top] = t == "[" ? "group" : t == "{" ? "block" : \
		is_call ? "call" : "group"
	if (t == "{" && (last ~ /^(=|literal)$/ ||
			 (top > 1 && kind[top - 1] != "block")))
		kind[top] = "list"
	who[top] = last
	now[top] = all[top] = before[top] = ""
}
function close_(t,    any, k, name)
{
	any = before[top] ? before[top] : all[top]
	k = kind[top]
	name = who[top]
	top--
	if (k == "call" && (name in leaves || FILENAME ":" name in leaves))
		any = name
	if (k == "block")
		now[top] = ""
	else if (any)
		event(any)
	return t == ")" && k == "group" && name !~ /^(if|while|for|switch)$/ \
		? "literal" : t
}
FNR == 1 { comment = skips = top = 0; last = above = "" }
{
	text = code($0)
	skipped = skips || /^#/
	skips = skipped && /\\$/
}
skipped { next }
pass == 1 {
	learn(text, above)
	above = text
	next
}
{
	while (match(text, /[A-Za-z_][A-Za-z0-9_]*|&&|\|\||->|[^ \t]/)) {
		t = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		if (t ~ /^[({[]$/) {
			open(t, last)
		} else if (t ~ /^[])}]$/ && top > 0) {
			t = close_(t)
		} else if (t == ",") {
			if (kind[top] ~ /call|list/) {
				if (all[top])
					before[top] = all[top]
				all[top] = ""
			}
			now[top] = ""
		} else if (t ~ /^(;|&&|\|\||\?|:)$/) {
			now[top] = ""
			if (t == ";")
				all[top] = ""
		}
		last = t
	}
}
END { exit failed }
' pass=1 $files pass=2 $files
