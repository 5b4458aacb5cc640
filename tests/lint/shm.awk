# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shm.awk - prints where the router touches shared memory otherwise than through ffr/lib/shm.h or an atomic:
# a field of one of its structs that stands anywhere but behind an &, and such an address that is
# handed to memcpy(). What points to such a struct is known by its declaration in the same file, and by
# the name hdr. Run by tests/lint/lint (shm) over the sources of ffr.

FNR == 1 {
	if (NR > 1)
		file_done()
	file = FILENAME
	in_comment = 0
}

{
	line = $0
	gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
	gsub(/\/\*[^*]*\*\//, "", line)
	if (in_comment)
		in_comment = !sub(/^.*\*\//, "", line)
	if (in_comment)
		line = ""
	if (sub(/\/\*.*$/, "", line))
		in_comment = 1
	text[FNR] = line
	lines = FNR
}

END {
	file_done()
	exit bad
}

function file_done(   i, s, n, start) {
	delete name
	name["hdr"] = 1
	for (i = 1; i <= lines; i++)
		for (s = text[i]; match(s, /struct ff_(sqe|rqe|(qp|srq|cq|ses)_hdr|call_slot) \*[a-z_]+/);
		     s = substr(s, RSTART + RLENGTH)) {
			n = substr(s, RSTART, RLENGTH)
			sub(/.*\*/, "", n)
			name[n] = 1
		}
	s = ""
	for (i = 1; i <= lines; i++) {
		if (s == "")
			start = i
		s = s " " text[i]
		if (text[i] ~ /[;{}]|^#|^$/) {
			for (n in name)
				statement(s, n, start)
			s = ""
		}
	}
	delete text
	lines = 0
}

# Every NAME-> of a statement, with what stands before it: a path (a->b->) and then an &.
function statement(s, n, at,   before, path, what) {
	for (before = ""; match(s, "(^|[^a-zA-Z_0-9])" n "->"); s = substr(s, RSTART + RLENGTH)) {
		path = before substr(s, 1, RSTART)
		before = before substr(s, 1, RSTART + RLENGTH - 1)
		what = n "->" substr(s, RSTART + RLENGTH, 24)
		if (path ~ /mem(cpy|move)\([^;]*$/)
			report(at, what, "memcpy()")
		sub(/([a-zA-Z_0-9]+(\[[^]]*\])?(->|\.))*(-?>|\.)?$/, "", path)
		if (path !~ /& ?\(?$/ && path !~ /(sizeof|ARRAY_SIZE)\([^)]*$/)
			report(at, what, "plain C")
	}
}

function report(at, what, how) {
	printf "%s:%d: %s: %s reaches shared memory: ffr/lib/shm.h\n", file, at, what, how
	bad = 1
}
