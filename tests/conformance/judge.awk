# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# judge.awk - compares two texts of the judge: judge-differs.txt, judge-rxe.txt, freeflow's. all: every
# group ran. A pattern matches case names as in the shell, but * and ? match slashes, and (a|b) is either.

function pattern(glob) {
	gsub(/[.^$+{}\\]/, "\\\\&", glob)
	gsub(/\*/, ".*", glob)
	gsub(/\?/, ".", glob)
	return "^" glob "$"
}

function complain(text) {
	print text
	bad++
}

FNR == 1 { file++ }

/^#/ || /^$/ { next }

file == 1 {
	if (split($0, half, " [|] ") != 2)
		complain("judge-differs.txt:" FNR ": not \"pattern | reason\"")
	glob[++globs] = half[1]
	regex[globs] = pattern(half[1])
	next
}

{
	at = index($0, ": ")
	name = at ? substr($0, 1, at - 1) : $0
	sub(/:$/, "", name)
	what = at ? substr($0, at + 2) : ""
}

file == 2 {
	if (name in kernel)
		complain("judge-rxe.txt:" FNR ": " name " is there twice")
	kernel[name] = what
	order[++cases] = name
	next
}

{
	if (name in ours)
		complain("two cases are called " name)
	ours[name] = what
	if (!(name in kernel))
		order[++cases] = name
}

END {
	for (i = 1; i <= cases; i++) {
		name = order[i]
		if (!(name in ours) && !all)
			continue
		same = name in ours && name in kernel && ours[name] == kernel[name]
		compared++
		listed = 0
		for (g = 1; g <= globs; g++)
			if (name ~ regex[g]) {
				hits[g] += !same
				listed = 1
				if (same && !wide[g]++)
					complain("judge-differs.txt: \"" glob[g] "\" matches " name \
						 ", which does not differ")
			}
		if (same)
			continue
		if (listed) {
			accepted++
			continue
		}
		complain(name)
		print "    kernel:   " (name in kernel ? kernel[name] : "(no such case)")
		print "    freeflow: " (name in ours ? ours[name] : "(no such case)")
	}
	for (g = 1; g <= globs && all; g++)
		if (!hits[g])
			complain("judge-differs.txt: \"" glob[g] "\" matches nothing that differs")
	printf "%d cases: %d as the kernel's, %d differ as listed, %d complaints\n", compared,
		compared - accepted - bad, accepted, bad
	exit bad > 0
}
