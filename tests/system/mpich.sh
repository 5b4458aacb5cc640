#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: hosts system-san
# timeout: 300
# mpich.sh - Debian's MPICH, which is built for UCX, with the verbs transports only, for ranks of one
# container as well: tests/rig/verbs/mpi_ring.c with ranks in two containers.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/mpi.sh"

if ! command -v mpicc.mpich >/dev/null || ! command -v mpiexec.hydra >/dev/null; then
	skip "no MPICH (make deps)"
fi
mpi_build mpicc.mpich
address=$(mpi_address)

mpich() { # TLS RANKS
	mpi_run "$2" "UCX_TLS=$1" mpiexec.hydra -localhost "$address" -disable-hostname-propagation \
		-launcher rsh -launcher-exec "$OUT/rsh" -hosts "$A:$2,$B:$2" -n $((2 * $2)) \
		-genvnone -genv PATH "$PATH" -genv MPIR_CVAR_NOLOCAL 1 \
		-genv UCX_TLS "$1" -genv UCX_NET_DEVICES ff0:1 -genv UCX_LOG_LEVEL error
}

for ranks in 1 2 4; do
	mpich rc_verbs,ud_verbs,self $ranks
done
mpich ud_verbs,self 2
exit 0
