# What `llmc --explain=cost' says of kernels, beside what others' reach:
#
#	llmc --target .. --explain=cost MODEL >ours
#	awk -f bench/gpu/peers.awk bench/gpu/peers.tsv ours
#
# A row: TFLOP/s as predicted, the other's, their ratio, the one that is asked
# for, and whose kernel the other is.
/^#/ || /^kernel\t/ {
	next
}
NR == FNR {
	split($0, cell, "\t")
	n++
	kernel[n] = cell[1]
	peer[n] = cell[2]
	asked[n] = cell[3]
	of[n] = cell[4]
	next
}
/ TFLOP\/s / {
	for (at = 1; $at != "TFLOP/s"; at++)
		;
	words = $(at + 1)
	for (i = at + 2; i <= NF; i++)
		words = words " " $i
	for (i = 1; i <= n; i++)
		if (index(words, kernel[i]) == 1 && !(kernel[i] in rate))
			rate[kernel[i]] = $(at - 1)
}
END {
	for (i = 1; i <= n; i++) {
		other = peer[i]
		if (sub(/^=/, "", other))
			other = rate[other]
		if (!(kernel[i] in rate) || other == "") {
			print "no row begins with: " kernel[i]
			failed = 1
			continue
		}
		printf "%6.1f %6.1f  %5.3f %5.2f  %s\n%30s%s\n", rate[kernel[i]],
			other, rate[kernel[i]] / other, asked[i], kernel[i], "", of[i]
	}
	exit failed
}
