#!/bin/sh
# Is there a setting of a model that is accepted and that nothing reads?
set -eu
cd "${top_srcdir:?}"

failed=0
for key in $(sed -n \
	's/^SETTING(\(train\|serve\|memory\), "\([a-z_.]*\)".*/\1.\2/p' \
	frontend/lang/settings.def); do
	if ! grep -rqF --include='*.c' "\"$key\"" ir frontend passes codegen; then
		echo "frontend/lang/settings.def: nothing reads $key"
		failed=1
	fi
done
exit $failed
