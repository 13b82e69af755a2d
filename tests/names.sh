#!/bin/sh
# No folder has more than 40 files, no two source files one name, and no two
# structs of the product one tag: a name found anywhere means one thing.
set -eu
cd "${top_srcdir:?}"
LC_ALL=C
export LC_ALL

# Tags that several files define so far.  Nothing may be added.
tags='
cell check frame made step uses
'
failed=0

# What a build in the source folder, an editor or patch leaves does not count.
most=40
for folder in $(find bench codegen docs examples frontend ir passes runtime \
	targets tests -type d ! -path '*/.*' ! -path tests/cache -print | sort)
do
	n=$(find "$folder" -maxdepth 1 -type f ! -name '.*' ! -name '*.[oa]' \
		! -name '*.log' ! -name '*.trs' ! -name '*~' ! -name '*.orig' \
		! -name '*.rej' -print | wc -l)
	if test "$n" -gt $most; then
		echo "$folder: $n files, at most $most"
		failed=1
	fi
done

twice=$(find bench codegen examples frontend ir passes runtime tests -type f \
	\( -name '*.[chyl]' -o -name '*.def' -o -name '*.cu' \) -print |
	sed 's,.*/,,' | sort | uniq -d)
for name in $twice; do
	echo "more than one file has this name:" \
		"$(find bench codegen examples frontend ir passes runtime \
			tests -name "$name" | tr '\n' ' ')"
	failed=1
done

structs=$(find codegen frontend ir passes runtime -type f -name '*.[chyl]' \
	! -path frontend/lang/parser.c ! -path frontend/lang/parser.h \
	! -path frontend/lang/lexer.c -print | sort |
	xargs sed -n \
	's/^[[:space:]a-z]*struct \([A-Za-z_0-9][A-Za-z_0-9]*\) *{.*/\1/p' |
	sort)
twice=$(printf '%s\n' "$structs" | uniq -d)
for tag in $twice; do
	# shellcheck disable=SC2086,SC2116 # one line of the list
	case " $(echo $tags) " in
	*" $tag "*) ;;
	*)
		echo "more than one struct has the tag $tag:"
		grep -rnE --include='*.[chyl]' "struct $tag *\\{" \
			codegen frontend ir passes runtime
		failed=1
		;;
	esac
done
for tag in $tags; do
	printf '%s\n' "$twice" | grep -qx "$tag" ||
		echo "one struct has this tag now, take it off the list: $tag"
done
exit $failed
