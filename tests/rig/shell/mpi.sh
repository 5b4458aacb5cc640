# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# mpi.sh - tests/rig/verbs/mpi_ring.c between two containers, those of one container included. Sourced by
# tests/system/mpi.sh and mpich.sh after lab.sh. What starts the ranks runs on the first host; what it
# takes for ssh starts its daemons inside the containers.

# mpi_build MPICC: the program is $OUT/mpi_ring.
mpi_build() {
	"$1" -std=gnu11 -O2 -Wall -Wextra -Werror -o "$OUT/mpi_ring" "$TREE/tests/rig/verbs/mpi_ring.c" ||
		fail "$1"
	remote_shell rsh
}

# On the first host, where containers are reached and reach us.
mpi_here() {
	nsenter --net="/proc/$(<"$FF_LAB/h0/ffr.pid")/ns/net" "$@"
}

mpi_address() {
	mpi_here ip -o route get "$("$LAB" ip "$B")" | sed -n 's/.* src \([0-9.]*\).*/\1/p'
}

# mpi_run RANKS WHAT CMD...: RANKS in each container, with what starts them: each byte was right, and the
# router moved them.
mpi_run() {
	local ranks=$1 what=$2 before moved status
	shift 2
	step "mpi_ring, $ranks ranks in each of 2 containers, $what"
	before=$(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes)))
	mpi_here timeout -k 5 60 "$@" "$OUT/mpi_ring" >"$OUT/mpi" 2>&1
	status=$?
	cat "$OUT/mpi"
	((!status)) || fail "$1 ended with $status"
	[[ $(<"$OUT/mpi") =~ "mpi_ring: $((2 * ranks)) ranks on 2 hosts, "([0-9]+)" bytes" ]] ||
		fail "not what mpi_ring prints"
	moved=$(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes) - before))
	((moved >= 2 * ranks * BASH_REMATCH[1])) || fail "the router moved $moved bytes only"
}
