#!/bin/sh
# embed.sh FILE..: print the C table of frontend/import/import_family.h, in the
# order of the names, whatever the order of the arguments.
set -eu
LC_ALL=C
export LC_ALL

cat <<'END'
/* Printed by frontend/import/families/embed.sh. */
#include "frontend/import/import_family.h"

const struct imp_family_file imp_family_files[] = {
END
printf '%s\n' "$@" | sort | while IFS= read -r file; do
	name=${file##*/}
	printf '\t{ "%s", (const char *const[]){\n' "${name%.family}"
	sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/\t"&",/' "$file"
	printf '\tNULL } },\n'
done
cat <<'END'
};
const size_t imp_nfamily_files =
	sizeof imp_family_files / sizeof *imp_family_files;
END
