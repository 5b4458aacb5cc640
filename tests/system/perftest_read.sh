#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: netns hosts docker system-san
# timeout: 360
# perftest_read.sh - ib_read_bw and ib_read_lat with their options.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/perftest.sh"

VERB="read"
bw 1000 8
bw 1000 65536 -e
at_night bw 1000 65536
at_night bw 1000 65536 -b
at_night bw 200 65536 -q 16
bw 200 4096 -q 16 -b -e
at_night in_full bw 1000 1000 -l 8
bw 1000 4096 -o 1
bw 500 100001 -x 0
at_night in_full bw 1000 4096 --use_old_post_send
bw_all 20 -b
lat 1000 8
at_night lat 1000 8 -e
at_night in_full lat 1000 4096 --use_old_post_send
at_night in_full lat_all 20
exit 0
