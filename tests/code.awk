# The code on a line of C, without comments and literals (each is a 0): for
# order.sh and style.sh.  What is left open, `comment' keeps from line to line.
function code(s,    out)
{
	out = ""
	while (s != "") {
		if (comment) {
			if (!match(s, /\*\//))
				return out
			comment = 0
		} else if (match(s, /^"([^"\\]|\\.)*"/) ||
			   match(s, /^\047([^\047\\]|\\.)*\047/)) {
			out = out "0"
		} else if (s ~ /^\/\//) {
			return out
		} else if (match(s, /^\/\*/)) {
			comment = 1
		} else {
			match(s, /^[^"\047\/]+|^./)
			out = out substr(s, 1, RLENGTH)
		}
		s = substr(s, RSTART + RLENGTH)
	}
	return out
}
