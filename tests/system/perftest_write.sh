#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 180
# hosts: yes
# brief: netns
# perftest_write.sh - ib_write_bw and ib_write_lat with their options.
. "$(dirname "$0")/../lib/lab.sh"
. "$(dirname "$0")/../lib/perftest.sh"

VERB="write"
for conn in RC UC; do
	once=
	[[ $conn == RC ]] || once=in_full
	$once bw 1000 65536 -c $conn
	$once bw 1000 8 -c $conn
	$once bw 1000 65536 -c $conn -b
	$once bw 200 65536 -c $conn -q 16
	$once bw 200 4096 -c $conn -q 16 -b
	$once bw 1000 32 -c $conn -I 64
	in_full bw 1000 1000 -c $conn -l 8
	in_full bw 1000 4096 -c $conn -Q 1
	$once bw 500 100001 -c $conn -x 0
	in_full bw 1000 4096 -c $conn --use_old_post_send
	$once lat 1000 8 -c $conn
	in_full lat 1000 8 -c $conn -I 64
	in_full lat 1000 4096 -c $conn --use_old_post_send
	$once lat 20 1048576 -c $conn
done
bw 1000 65536 -c UC
bw 200 8388608 -t 16
bw_all 20 -b
in_full lat_all 20
exit 0
