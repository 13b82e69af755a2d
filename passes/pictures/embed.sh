#!/bin/sh
# embed.sh FOLDER FILE..: print these files, which lie in the folder, as the
# texts of picture_parts.h: page.css is picture_page_css.
set -eu
LC_ALL=C
export LC_ALL

folder=$1
shift
cat <<'END'
/* Printed by passes/pictures/embed.sh. */
#include "passes/pictures/picture_parts.h"

/* more than the 4095 bytes that C promises; GCC and Clang take them */
#pragma GCC diagnostic ignored "-Woverlength-strings"
END
for file in "$@"; do
	name=${file##*/}
	printf '\nconst char picture_%s[] =\n' "$(echo "$name" | tr . _)"
	sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/\t"&\\n"/' "$folder/$file"
	printf '\t;\n'
done
