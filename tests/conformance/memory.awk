# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# memory.awk - compares texts of memory.c, word by word: memory-differs.txt, then the texts of the
# modes none, pin and dev. What `dev` says is right if `none` or `pin` says the same. Set `chosen` to
# "full" if the texts have all cases, and to "some" if somebody chose them.
#
# An entry "CASES | WORD | REASON" of the list excuses a word of `dev` that is not right: CASES and
# WORD are patterns as in the shell, but * and ? match slashes, and (a|b) is either. A word that is
# missing is "-KEY". An entry that excuses nothing in these texts is an error, unless it begins with
# "~" (it depends on timing), or none of its cases was run, or somebody chose the cases.

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

# Puts the words of a line into to[key], where key is what is before "=", numbered if there are
# several.
function words_of(line, to,    n, i, part, key, count, seen) {
	split("", to)
	split("", seen)
	n = split(line, part, " ")
	for (i = 1; i <= n; i++) {
		key = part[i]
		sub(/=.*/, "", key)
		count = ++seen[key]
		to[count > 1 ? key "#" count : key] = part[i]
	}
	return n
}

# A signal, or what else ended the case early: later words cannot be there.
function ends_early(to,    key) {
	for (key in to)
		if (key ~ /^(SIG[A-Z]+|hangs|fails|exit-[0-9]+)$/)
			return 1
	return 0
}

function excuse(name, word,    g) {
	for (g = 1; g <= globs; g++)
		if (name ~ cases[g] && word ~ what[g]) {
			hits[g]++
			return 1
		}
	return 0
}

FNR == 1 { file++ }

/^#/ || /^$/ { next }

file == 1 {
	if (split($0, part, " [|] ") != 3)
		complain("memory-differs.txt:" FNR ": not \"cases | word | reason\"")
	entry[++globs] = part[1] " | " part[2]
	maybe[globs] = sub(/^~/, "", part[1])
	cases[globs] = pattern(part[1])
	what[globs] = pattern(part[2])
	next
}

{
	at = index($0, ":")
	name = substr($0, 1, at - 1)
	if ((file, name) in text)
		complain("two cases of one text are called " name)
	text[file, name] = substr($0, at + 1)
	if (!(name in known)) {
		known[name] = 1
		order[++names] = name
	}
}

function compare(name,    none, pin, dev, key, wrong, cut, excused, said) {
	words_of(text[2, name], none)
	words_of(text[3, name], pin)
	words_of(text[4, name], dev)
	if ("skipped" in none || "skipped" in pin || "skipped" in dev)
		return 0
	cut = ends_early(dev)
	for (key in dev) {
		if (key in none && none[key] == dev[key] || key in pin && pin[key] == dev[key])
			continue
		if (excuse(name, dev[key]))
			excused = 1
		else
			said = said "\n    dev " dev[key] \
				(key in none ? "    none " none[key] : "") \
				(key in pin && (!(key in none) || none[key] != pin[key]) ? \
				 "    pin " pin[key] : "")
	}
	for (key in pin) {
		if (key in dev || cut || (2, name) in text && !(key in none))
			continue
		if (excuse(name, "-" key))
			excused = 1
		else
			said = said "\n    dev has no " pin[key]
	}
	if (said != "") {
		complain(name said)
		return 0
	}
	return excused
}

END {
	for (i = 1; i <= names; i++) {
		name = order[i]
		rdma = name ~ /\/rdma$/
		main = name
		sub(/\/rdma$/, "", main)
		# There is not everywhere, nor at all times, memory of each kind.
		if (text[3, main] ~ /^ skipped/ || text[4, main] ~ /^ skipped/)
			continue
		# Where io_uring is forbidden, nothing is known about pinned pages.
		if (text[3, main] ~ /^ no-device=/) {
			blind = 1
			if (rdma)
				continue
			pinned_too = text[3, name]
			text[3, name] = text[2, name]
			accepted += compare(name)
			text[3, name] = pinned_too
			continue
		}
		if (!((4, name) in text)) {
			# Nothing was registered because the case ended before.
			if (!rdma || !excuse(name, "-reg"))
				complain(name "\n    no such case in dev")
			continue
		}
		if (!((3, name) in text))
			complain(name "\n    in dev only:" text[4, name])
		else
			accepted += compare(name)
	}
	for (g = 1; g <= globs && chosen != "some" && !blind; g++) {
		if (hits[g] || maybe[g])
			continue
		ran = chosen == "full"
		for (i = 1; i <= names && !ran; i++)
			ran = order[i] ~ cases[g]
		if (ran)
			complain("memory-differs.txt: \"" entry[g] "\" excuses nothing")
	}
	printf "%d cases: %d as without a device, or as with pinned pages; %d differ as listed; " \
		"%d complaints\n", names, names - accepted - bad, accepted, bad
	exit bad > 0
}
