#!/bin/sh
# embed.sh SERVICES FILE..: print the texts of codegen/cuda/cuda.h: the files of
# the prelude in the order of their names, and the host program's functions.
set -eu
LC_ALL=C
export LC_ALL

text() {
	sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/\t"&\\n"/' "$1"
}

services=$1
shift
cat <<'END'
/* Printed by codegen/cuda/embed.sh. */
#include "codegen/cuda/cuda.h"

/* more than the 4095 bytes that C promises; GCC and Clang take them */
#pragma GCC diagnostic ignored "-Woverlength-strings"

const struct cu_text cu_prelude[] = {
END
printf '%s\n' "$@" | sed 's,.*/\(.*\),\1 &,' | sort -u |
while read -r name file; do
	printf '\t{ "%s",\n' "$name"
	text "$file"
	printf '\t},\n'
done
cat <<'END'
};
const uint32_t cu_nprelude = sizeof cu_prelude / sizeof *cu_prelude;
const char cu_services[] =
	""
END
test ! -f "$services" || text "$services"
echo ';'
