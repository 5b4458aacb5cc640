#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: hosts
# night: docker system-san
# timeout: 360
# cm_perftest.sh - perftest's programs with their QPs connected by rdma_cm (-R): the report of each,
# and that its bytes went through the router.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/cm.sh"
ip=$("$LAB" ip "$A")

bw() { # BYTES-OF PROGRAM OPTIONS...
	local of=$1 before
	shift
	before=$(counter "$of" tx_bytes)
	cm_pair "$* -F -R -n 500 -s 65536" "$* -F -R -n 500 -s 65536 $ip"
	bandwidth 500 65536
	(($(counter "$of" tx_bytes) - before >= 500 * 65536)) ||
		fail "only $(($(counter "$of" tx_bytes) - before)) bytes went through the router"
}

bw "$B" ib_send_bw
bw "$B" ib_write_bw
bw "$A" ib_read_bw

lat() { # SIZE PROGRAM OPTIONS...
	local size=$1
	shift
	cm_pair "$* -F -R -n 500 -s $size" "$* -F -R -n 500 -s $size $ip"
	latency 500 "$size"
}

lat 8 ib_write_lat
lat 64 ib_send_lat
lat 1024 ib_send_lat -c UD
lat 4096 ib_read_lat
exit 0
