#!/bin/sh
# Do the .c files of a folder call each other in a circle?  Two files that call
# each other's functions cannot be read, tested or replaced one without the
# other: either they are one idea and should be one file, or a function lies in
# the wrong one.
#
# A row of this table allows a circle, or less of it: FOLDER: FILES - REASON.
allowed='
passes/place: place_cells.c place_cost.c place_due.c place_like.c place_link.c place_memo.c place_shape.c place_take.c - variables, their costs and what is alike are one problem, in parts
'
set -eu
cd "${top_srcdir:?}"
LC_ALL=C
export LC_ALL

files=$(find ir passes frontend codegen runtime -type f -name '*.c' \
	! -path frontend/lang/parser.c ! -path frontend/lang/lexer.c \
	! -path frontend/tool/target_files.c \
	! -path passes/pictures/picture_texts.c \
	! -path codegen/cuda/prelude_text.c -print | sort)

# shellcheck disable=SC2086 # a list of files
ALLOWED=$allowed awk "$(cat tests/code.awk)"'
function begin_file()
{
	comment = 0
	above = ""
	folder = FILENAME
	sub(/\/[^\/]*$/, "", folder)
	file = substr(FILENAME, length(folder) + 2)
	if (folder in count)
		count[folder]++
	else
		count[folder] = 1
	name[folder, count[folder]] = file
	self = folder SUBSEP count[folder]
}
# A public function is defined in this line: `name(` in its first column, below
# a type without `static`.
function define(text,    word)
{
	if (text !~ /^[a-z_][A-Za-z0-9_]*\(/ || text ~ /;[ \t]*$/ ||
	    above !~ /^[A-Za-z_]/ || above ~ /static/)
		return
	word = text
	sub(/\(.*/, "", word)
	defined[folder, word] = defined[folder, word] " " count[folder]
}
FNR == 1 { begin_file() }
{
	text = code($0)
	define(text)
	above = text
	while (match(text, /[a-z_][A-Za-z0-9_]*/)) {
		word = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		if (!((self, word) in seen)) {
			seen[self, word] = 1
			words[self] = words[self] " " word
		}
	}
}
# Which files of the folder are reached from which, by one call or more.
function reach(folder,    n, i, j, k, m, w, list, to, t)
{
	delete calls
	delete reached
	n = count[folder]
	for (i = 1; i <= n; i++) {
		m = split(words[folder, i], list, " ")
		for (w = 1; w <= m; w++) {
			if (!((folder, list[w]) in defined))
				continue
			# A file that defines it, too, calls its own: a stub
			# stands for the other one.
			if (index(defined[folder, list[w]] " ", " " i " "))
				continue
			t = split(defined[folder, list[w]], to, " ")
			for (j = 1; j <= t; j++) {
				reached[i, to[j]] = 1
				calls[i, to[j]] = calls[i, to[j]] " " list[w]
			}
		}
	}
	for (k = 1; k <= n; k++)
		for (i = 1; i <= n; i++)
			for (j = 1; (i, k) in reached && j <= n; j++)
				if ((k, j) in reached)
					reached[i, j] = 1
}
# Is each of these files in one row of the table?
function is_allowed(folder, list, m,    r, i, there)
{
	for (r = 1; r <= rows; r++) {
		if (index(row[r], folder ": ") != 1)
			continue
		there = row[r]
		sub(/ - .*/, " ", there)
		for (i = 1; i <= m; i++)
			if (!index(there, " " list[i] " "))
				break
		if (i > m) {
			used[r] = 1
			return 1
		}
	}
	return 0
}
function circles(folder,    n, i, j, k, m, done, list, at, line)
{
	n = count[folder]
	for (i = 1; i <= n; i++) {
		if (i in done || !((i, i) in reached))
			continue
		m = 0
		line = folder ":"
		for (j = i; j <= n; j++) {
			if ((i, j) in reached && (j, i) in reached) {
				done[j] = 1
				at[++m] = j
				list[m] = name[folder, j]
				line = line " " list[m]
			}
		}
		if (is_allowed(folder, list, m))
			continue
		failed = 1
		print line
		for (j = 1; j <= m; j++)
			for (k = 1; k <= m; k++)
				if ((at[j], at[k]) in calls)
					print "    " list[j] " calls " list[k] \
						":" calls[at[j], at[k]]
	}
}
END {
	rows = split(ENVIRON["ALLOWED"], row, "\n")
	for (folder in count) {
		reach(folder)
		circles(folder)
	}
	for (r = 1; r <= rows; r++)
		if (row[r] != "" && !(r in used))
			print "no circle any more, remove the row: " row[r]
	exit failed
}
' $files
