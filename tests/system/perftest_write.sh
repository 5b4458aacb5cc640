#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: netns hosts docker system-san
# timeout: 360
# perftest_write.sh - ib_write_bw and ib_write_lat with their options.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/perftest.sh"

VERB="write"
for conn in RC UC; do
	usual $conn
	at_night in_full bw 1000 4096 -c $conn -Q 1
done
bw 1000 65536 -c UC
bw 200 8388608 -t 16
bw_all 20 -b
at_night in_full lat_all 20
exit 0
