#!/bin/sh
# embed.sh FILE..: print the C table of frontend/frontend.h, in the order of the
# names, whatever the order of the arguments.
set -eu
LC_ALL=C
export LC_ALL

cat <<'END'
/* Printed by targets/embed.sh. */
#include "frontend/frontend.h"

const struct fe_target_file fe_target_files[] = {
END
printf '%s\n' "$@" | sort | while IFS= read -r file; do
	name=${file##*/}
	printf '\t{ "%s",\n' "${name%.target}"
	sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/\t"&\\n"/' "$file"
	printf '\t},\n'
done
cat <<'END'
};
const size_t fe_target_nfiles =
	sizeof fe_target_files / sizeof *fe_target_files;
END
