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
