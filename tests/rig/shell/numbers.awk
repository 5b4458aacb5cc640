# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# numbers.awk - the numbers of those names (-v names="a b") in JSON that has one a line, as ffctl prints it.
match($0, /"[a-z_]+": [0-9]+,?$/) {
	split(substr($0, RSTART + 1), pair, /": |,/)
	of[pair[1]] = pair[2]
}
END {
	n = split(names, name, " ")
	for (i = 1; i <= n; i++) {
		if (!(name[i] in of))
			exit 1
		printf "%s%s", of[name[i]], i < n ? " " : "\n"
	}
}
