#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: hosts system-san
# timeout: 300
# mpi.sh - Debian's Open MPI, over UCX with the verbs transports only and over libfabric with the verbs
# provider: tests/rig/verbs/mpi_ring.c with ranks in two containers.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/mpi.sh"

if ! command -v mpicc.openmpi >/dev/null || ! command -v mpirun.openmpi >/dev/null; then
	skip "no Open MPI (make deps)"
fi
mpi_build mpicc.openmpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
address=$(mpi_address)

openmpi() { # RANKS WHAT OPTIONS...
	local ranks=$1 what=$2
	shift 2
	mpi_run "$ranks" "$what" mpirun.openmpi -H "$A:$ranks,$B:$ranks" \
		--mca oob_tcp_if_include "${address%.*}.0/24" --mca plm_rsh_agent "$OUT/rsh" \
		--mca plm_rsh_no_tree_spawn 1 --mca btl self "$@"
}

ucx() { # TLS RANKS
	openmpi "$2" "UCX_TLS=$1" --mca pml ucx --mca osc ucx \
		--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any \
		-x "UCX_TLS=$1" -x UCX_NET_DEVICES=ff0:1 -x UCX_LOG_LEVEL=error
}

ofi() { # PROVIDER RANKS
	openmpi "$2" "FI_PROVIDER=$1" --mca pml cm --mca mtl ofi --mca osc pt2pt \
		--mca mtl_ofi_provider_include "$1" -x "FI_PROVIDER=$1"
}

ucx rc_verbs,ud_verbs,self 1
ucx rc_verbs,ud_verbs,self 2
ucx rc_verbs,ud_verbs,self 4
ucx ud_verbs,self 2
for ranks in 1 2 4; do
	ofi "verbs;ofi_rxm" $ranks
done
exit 0
