#!/bin/sh
# --help is on standard output and knows every option; the man page and the
# completions are well formed, as far as there are programs to ask.
. "${top_srcdir:?}/tests/lib.sh"

"$LLMC" --help >help || fail '--help'
for form in man bash zsh fish; do
	"$LLMC" --help=$form >$form || fail "--help=$form"
done
awk 'length($0) > 80 { print FILENAME ": too wide: " $0; bad = 1 }
	/[ \t]$/ { print FILENAME ": blank at the end: " $0; bad = 1 }
	END { exit bad }' help || exit 1

# The names, as the table has them.
names=$(sed -n 's/^OPT([A-Z_]*, "\([a-z-]*\)".*/\1/p' \
	"$top_srcdir/frontend/options/options.def")
test "$(echo "$names" | wc -l)" -gt 20 || fail 'no names in options.def'
for name in $names; do
	grep -q -e "--$name" help || fail "--help: no --$name"
	grep -q -e "-$name" bash || fail "bash: no --$name"
	grep -q -e "--$name" zsh || fail "zsh: no --$name"
	grep -q -e "-l $name" fish || fail "fish: no --$name"
	grep -qF -e "\\-\\-$(echo "$name" | sed 's/-/\\-/g')" man ||
		fail "man: no --$name"
done

if command -v groff >/dev/null; then
	groff -ww -man -Tascii -P-c man >shown 2>err || fail 'groff fails'
	test ! -s err || fail 'groff complains'
	grep -q 'print what the passes counted' shown || fail 'the man page lacks options'
fi
if command -v bash >/dev/null; then
	bash -n bash || fail 'bash does not parse its completion'
	got=$(bash -c '. ./bash; COMP_WORDS=(llmc --emit = su) COMP_CWORD=3
		_llmc; echo "${COMPREPLY[*]}"')
	test "$got" = 'summary summary-json' || fail "bash: --emit=su: $got"
	got=$(bash -c '. ./bash; COMP_WORDS=(llmc opt --print-c) COMP_CWORD=2
		_llmc; echo "${COMPREPLY[*]}"')
	test "$got" = '--print-changed' || fail "bash: --print-c: $got"
fi
if command -v zsh >/dev/null; then
	zsh -n zsh || fail 'zsh does not parse its completion'
fi
if command -v fish >/dev/null; then
	fish -n fish || fail 'fish does not parse its completion'
fi
exit $failed
