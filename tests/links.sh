#!/bin/sh
# Links of the pages lead somewhere: the file that a link names is there, and
# the heading of a page that it names after `#'.  An address with a scheme is
# left alone.  A release that lacks a file which a page names fails here, too.
set -eu
cd "${top_srcdir:?}"
LC_ALL=C
export LC_ALL

# A block of code ends with a fence of its kind, no shorter than its first one.
blocks='
FNR == 1 { fence = "" }
match($0, /^[ \t]*(```+|~~~+)/) {
	mark = substr($0, RSTART, RLENGTH)
	gsub(/[ \t]/, "", mark)
	if (fence == "")
		fence = mark
	else if (index(mark, fence) == 1 && /^[ \t]*(`+|~+)[ \t]*$/)
		fence = ""
	next
}
fence != "" { next }'

# page:line target, of what is no code; a title may follow it
links=$(awk "$blocks"'
{
	text = $0
	gsub(/`[^`]*`/, "", text)
	while (match(text, /\]\([^)]*\)/)) {
		to = substr(text, RSTART + 2, RLENGTH - 3)
		sub(/[ \t].*/, "", to)
		print FILENAME ":" FNR, to
		text = substr(text, RSTART + RLENGTH)
	}
}' README.md docs/*.md)

# page#name, of each heading: its letters in lower case, without punctuation,
# with hyphens for spaces; a number tells equal ones of a page apart
anchors=$(awk "$blocks"'
/^#+ / {
	text = $0
	sub(/^#+ +/, "", text)
	while (match(text, /\]\([^)]*\)/))
		text = substr(text, 1, RSTART) \
			substr(text, RSTART + RLENGTH)
	text = tolower(text)
	gsub(/[^a-z0-9_ \200-\377-]/, "", text)
	gsub(/ /, "-", text)
	name = FILENAME "#" text
	print name (had[name]++ ? "-" (had[name] - 1) : "")
}' README.md docs/*.md)

if test -z "$links" || test -z "$anchors"; then
	echo 'neither links nor headings were found'
	exit 1
fi

failed=0
bad()
{
	echo "$1: $2: $3"
	failed=1
}

while read -r where target; do
	case $target in
	[a-z]*://* | mailto:*) continue ;;
	esac
	page=${where%:*} file=${target%%#*}
	folder=.
	case $page in
	*/*) folder=${page%/*} ;;
	esac
	test -z "$file" || page=$folder/$file
	if ! test -e "$page"; then
		bad "$where" "$target" 'no such file'
		continue
	fi
	case $target in
	*.md'#'* | '#'*) ;;
	*) continue ;;
	esac
	# docs/../README.md is README.md
	page=${page#./} page=${page#docs/../}
	case "
$anchors
" in
	*"
$page#${target#*'#'}
"*) ;;
	*) bad "$where" "$target" 'no such heading' ;;
	esac
done <<END
$links
END
exit $failed
