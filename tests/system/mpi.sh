#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# brief: netns
# timeout: 120
# engines: netns
# hosts: yes
# mpi.sh - Debian's Open MPI over UCX over the verbs transports only: tests/lib/mpi_ring.c with ranks
# in two containers, those of one container included. mpirun runs on the host; what it takes for ssh
# starts its daemons inside the containers.
. "$(dirname "$0")/../lib/lab.sh"

if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
	skip "no Open MPI (make deps)"
fi
mpicc -std=gnu11 -O2 -Wall -Wextra -Werror -o "$OUT/mpi_ring" "$TREE/tests/lib/mpi_ring.c" ||
	fail "mpicc"
cat >"$OUT/rsh" <<RSH
#!/bin/sh
host=\$1
shift
exec "$LAB" exec "\$host" -- /bin/sh -c "\$*"
RSH
chmod +x "$OUT/rsh"

# mpi TLS RANKS: RANKS in each container, and their bytes went through the router.
mpi() {
	local tls=$1 ranks=$2 before moved subnet
	step "mpi_ring, $ranks ranks in each of 2 containers, UCX_TLS=$tls"
	subnet=$("$LAB" ip "$A")
	before=$(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes)))
	env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		timeout 60 nsenter --net="/proc/$(<"$FF_LAB/h0/ffr.pid")/ns/net" \
		mpirun -H "$A:$ranks,$B:$ranks" \
		--mca oob_tcp_if_include "${subnet%.*}.0/24" --mca plm_rsh_agent "$OUT/rsh" --mca plm_rsh_no_tree_spawn 1 \
		--mca pml ucx --mca osc ucx --mca btl self \
		--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any \
		-x "UCX_TLS=$tls" -x UCX_NET_DEVICES=ff0:1 -x UCX_LOG_LEVEL=error \
		"$OUT/mpi_ring" >"$OUT/mpi" 2>&1 || {
		cat "$OUT/mpi"
		fail "mpirun ended with $?"
	}
	cat "$OUT/mpi"
	[[ $(<"$OUT/mpi") =~ "mpi_ring: $((2 * ranks)) ranks on 2 hosts, "([0-9]+)" bytes" ]] ||
		fail "not what mpi_ring prints"
	moved=$(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes) - before))
	((moved >= 2 * ranks * BASH_REMATCH[1])) || fail "the router moved $moved bytes only"
}

mpi rc_verbs,ud_verbs,self 1
mpi rc_verbs,ud_verbs,self 2
mpi ud_verbs,self 2
exit 0
