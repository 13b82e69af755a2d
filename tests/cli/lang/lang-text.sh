#!/bin/sh
# Line ends, tabs and bytes beyond ASCII: carets stand under the culprit, and
# no byte harms a terminal.
. "${top_srcdir:?}/tests/lib.sh"
export NO_COLOR=1

# shows WHAT: in.llm is refused with the message on standard input.
shows()
{
	cat >want
	refused '' --emit=ir in.llm
	diff -u want err || bad "$1"
}

printf 'model m {\r\n  dim a = 4;\r\n  input x[a];\r\n  logits = y;\r\n}\r\n' \
	>in.llm
shows 'CR LF' <<'END'
in.llm:4:12: error: no value is named `y`
    4 |   logits = y;
      |            ^
END
sed 's/= y/= x/' in.llm >crlf.llm
tr -d '\r' <crlf.llm >lf.llm
for name in crlf lf; do
	run --emit=ir $name.llm -o $name.ir
done
cmp crlf.ir lf.ir || bad 'CR LF is another model'

printf 'model m {\n\tdim a = 4;\n\tinput x[a];\tlogits\t=\ty;\n}\n' >in.llm
printf 'in.llm:3:23: error: no value is named `y`\n' >want.tabs
printf '    3 | \tinput x[a];\tlogits\t=\ty;\n' >>want.tabs
printf '      | \t           \t      \t \t^\n' >>want.tabs
shows 'tabs' <want.tabs

# u-umlaut (two bytes) before the culprit is one column
printf 'model m {\n  dim a = 4; input x[a];\n' >in.llm
printf '  y = x * weight(a) @ "gr\303\274n"; logits = z;\n}\n' >>in.llm
printf 'in.llm:3:40: error: no value is named `z`\n' >want.utf8
printf '    3 |   y = x * weight(a) @ "gr\303\274n"; logits = z;\n' >>want.utf8
printf '      |                                        ^\n' >>want.utf8
shows 'UTF-8' <want.utf8

# a lone byte of a longer character is shown by its value
printf 'model m {\n  dim a = 4; input x[a];\n' >in.llm
printf '  logits = \374 + x;\n}\n' >>in.llm
shows 'invalid UTF-8' <<'END'
in.llm:3:12: error: 1 byte that means nothing outside a text or a comment, the first is 0xfc
    3 |   logits = <fc> + x;
      |            ^~~~
END

# outside a text, characters beyond ASCII are reported whole
printf 'model m {\n  dim \303\244 = 4;\n}\n' >in.llm
printf 'in.llm:2:7: error: 2 bytes that mean nothing outside a text or a ' >want.junk
printf 'comment, the first is 0xc3\n    2 |   dim \303\244 = 4;\n' >>want.junk
printf '      |       ^\n' >>want.junk
shows 'a letter beyond ASCII' <want.junk

name=$(awk 'BEGIN { for (i = 0; i < 255; i++) printf "n" }')
echo "model $name { dim a = 4; input x[a]; logits = x; }" >long.llm
run --emit=ir long.llm
echo "model ${name}n { dim a = 4; input x[a]; logits = x; }" >longer.llm
refused '256 characters, and 255 is the limit' --emit=ir longer.llm
exit $failed
