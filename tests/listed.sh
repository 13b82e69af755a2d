#!/bin/sh
# Does `make check' run every test that is there?  Scripts, unit tests, pages
# and folders of pairs are listed for automake, and a file that is not listed
# is silently no test; pairs are found in their folders, and a file there that
# belongs to no pair is silently not looked at.
set -eu
cd "${top_srcdir:?}"
LC_ALL=C
export LC_ALL
failed=0

bad()
{
	echo "$*"
	failed=1
}

# listed LIST FILE: is FILE, named as from the folder of LIST, a line of it?
listed()
{
	name=${2#"${1%/*}"/}
	grep -qE "^	(%D%/)?$name( \\\\)?\$" "$1" ||
		bad "$2 is not listed in $1"
}

for script in tests/*.sh tests/attack/*.sh tests/fuzz/replay.sh; do
	case $script in
	tests/installcheck.sh | tests/lib.sh) ;;
	tests/docs.sh | tests/no-cmocka.sh) ;;
	*) listed tests/local.mk "$script" ;;
	esac
done
for script in $(find tests/cli -name '*.sh' | sort); do
	listed tests/cli/local.mk "$script"
done
for unit in $(find tests/unit -name 't-*.c' | sort); do
	listed tests/unit/local.mk "${unit%.c}"
done
for page in docs/*.md; do
	listed docs/local.mk "$page"
done

# Tests in turns are there under these names, each in one list: another one is
# run on each day.  What has cases of the day would never have some of them on
# the one day of two that it is run.
named=' '
of_the_day='t_((run_)?today|in_grid|day)\(|^[^#]*\btoday [0-9$"]|TESTS_DAY'
for list in in_turns in_halves; do
	turns=$(sed -n "/^$list = /,/[^\\]\$/s/^	\([^ ]*\).*/\1/p" \
		tests/local.mk | sed 's,^%D%/,tests/,')
	test -n "$turns" || bad "tests/local.mk has no tests $list"
	for name in $turns; do
		file=$name
		test -f "$file" || file=$name.c
		test -f "$file" ||
			bad "$list of tests/local.mk names $name, which is not there"
		case $named in
		*" $name "*) bad "$name is twice in the turns of tests/local.mk" ;;
		esac
		named="$named$name "
		test $list = in_turns ||
			! grep -sqE "$of_the_day" "$file" ||
			bad "$list of tests/local.mk: $name has cases of the day"
	done
done

# Folders of pairs.
for about in $(find tests -name about.pairs | sort); do
	folder=${about%/*}
	listed tests/local.mk "$folder"
	test -s "$about" || bad "$about does not say what the pairs here test"
	test "$(wc -l <"$about")" -eq 1 || bad "$about: more than one line"
	for file in "$folder"/*; do
		stem=${file%.*}
		case $file in
		*.ir) test ! -f "$stem.llm" || bad "$stem: both .llm and .ir" ;;
		*.err | *.out) test -f "$stem.llm" || test -f "$stem.ir" ||
			bad "$file belongs to no .llm or .ir" ;;
		esac
	done
done
find tests -type f \( -name '*.llm' -o -name '*.ir' \) \
	! -path 'tests/fuzz/seeds/*' -print | sort |
{
	while read -r file; do
		test -f "${file%/*}/about.pairs" ||
			bad "$file lies in no folder with an about.pairs"
	done
	exit $failed
} || failed=1
exit $failed
