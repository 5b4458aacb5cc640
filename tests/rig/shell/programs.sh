# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# programs.sh - what the scripts in tests/programs have in common. Sourced after lab.sh.

# A folder for each project, with what was built of it.
PROGRAMS=$(readlink -f "${PROGRAMS:-$TREE/build/programs}" || true)

# needs FILE...: skips the test unless these files are in $PROGRAMS.
needs() {
	local file
	for file; do
		[[ -e $PROGRAMS/$file ]] || skip "no $file in PROGRAMS, ${PROGRAMS:-which does not exist} (tests/programs/README.md)"
	done
}

# moved BYTES CMD...: CMD's exit status, and the router moved at least so many bytes meanwhile.
moved() {
	local least=$1 before bytes
	shift
	before=$(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes)))
	"$@" || return
	bytes=$(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes) - before))
	((bytes >= least)) || fail "$*: the router moved $bytes bytes only"
}

# ucx TEST SIZE COUNT [NAME=VALUE]...: what UCX_PERFTEST is, and its report has so many iterations.
ucx() {
	pair "$A" "$B" env "${@:4}" "${UCX_PERFTEST[@]}" -t "$1" -s "$2" -n "$3" -w 10 -f
	awk -v n="$3" '
		$1 == n && NF == 8 { ok = 1; print "   latency " $3 " us, " $6 " MB/s" }
		END { exit !ok }' "$OUT/client" || {
		cat "$OUT/client"
		fail "no report of $3 iterations"
	}
}

# ucx_figures PERFTEST...: with no variable set UCX takes the device. Each test runs over TCP after that, for its figures.
ucx_figures() {
	local name size count
	UCX_PERFTEST=("$@")
	while read -r name size count; do
		moved $((size * count)) ucx "$name" "$size" "$count"
		ucx "$name" "$size" "$count" UCX_TLS=tcp,self
	done <<-TESTS
		tag_lat 8 2000
		tag_bw 1048576 200
	TESTS
}
