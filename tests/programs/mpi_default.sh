#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 900
# mpi_default.sh - Debian's Open MPI and MPICH with no setting that chooses a transport: do they take the device by
# themselves? Each runs mpi_default.c with its defaults, and Open MPI with TCP chosen after that, for its figures.
# MPICH does not, because UCX 1.13 over TCP alone waits in MPI_Finalize() for ever between two containers of one host.
#
# Debian's /etc/openmpi/openmpi-mca-params.conf turns all of Open MPI's transports over verbs off, also for a NIC. So
# Open MPI runs without that file as well, with what its authors made the default.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/mpi.sh"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
address=$(mpi_address)

openmpi() { # OPTIONS... PROGRAM
	mpi_here timeout -k 5 120 mpirun.openmpi -H "$A:1,$B:1" --mca oob_tcp_if_include "${address%.*}.0/24" \
		--mca plm_rsh_agent "$OUT/rsh" --mca plm_rsh_no_tree_spawn 1 "$@"
}

mpich() { # OPTIONS... PROGRAM
	mpi_here timeout -k 5 120 mpiexec.hydra -localhost "$address" -disable-hostname-propagation -launcher rsh \
		-launcher-exec "$OUT/rsh" -hosts "$A,$B" -n 2 -genvnone -genv PATH "$PATH" "$@"
}

# run MIN-MB WHAT CMD...: CMD ends well, and the router moved so many MB meanwhile, or none at all (MIN-MB 0).
run() {
	local least=$1 what=$2 before mb
	shift 2
	before=$(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes)))
	if ! { "$@" "$OUT/mpi_default" >"$OUT/mpi" 2>&1 && grep -q '^mpi_default: ' "$OUT/mpi"; }; then
		cat "$OUT/mpi"
		fail "mpi_default, $what"
	fi
	mb=$((($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes) - before) >> 20))
	step "$what: $(grep '^mpi_default: ' "$OUT/mpi"), the router moved $mb MB"
	((least ? mb >= least : !mb)) || fail "the router moved $mb MB"
}

build() { # MPI
	command -v "mpicc.$1" >/dev/null || skip "no mpicc.$1 (make deps)"
	"mpicc.$1" -std=gnu11 -O2 -Wall -Wextra -Werror -o "$OUT/mpi_default" "$TREE/tests/programs/mpi_default.c" ||
		fail "mpi_default.c"
}

remote_shell rsh
build openmpi
run 0 "Open MPI, Debian's settings" openmpi
OMPI_MCA_mca_base_param_files=/dev/null run 320 "Open MPI, its own defaults" openmpi
run 0 "Open MPI, btl tcp" openmpi --mca pml ob1 --mca btl tcp,self
build mpich
run 320 "MPICH, its defaults" mpich
