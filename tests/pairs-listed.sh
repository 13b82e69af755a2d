#!/bin/sh
# Is every test that lies in the folders also on automake's list?
set -eu
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
sh "${top_srcdir:?}/tests/list-pairs" "$top_srcdir" >"$tmp"
diff -u --label tests/pairs.mk --label 'what is there' \
	"$top_srcdir/tests/pairs.mk" "$tmp" || {
	echo "pairs.mk is out of date: make update-golden"
	exit 1
}
