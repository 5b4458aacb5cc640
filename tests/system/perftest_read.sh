#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: hosts docker system-san
# timeout: 360
# perftest_read.sh - ib_read_bw and ib_read_lat with their options.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/perftest.sh"

VERB="read"
bw 1000 65536
bw 1000 8
bw 1000 65536 -e
bw 1000 65536 -b
bw 200 65536 -q 16
bw 200 4096 -q 16 -b -e
in_full bw 1000 1000 -l 8
bw 1000 4096 -o 1
bw 500 100001 -x 0
in_full bw 1000 4096 --use_old_post_send
bw_all 20 -b
lat 1000 8
lat 1000 8 -e
in_full lat 1000 4096 --use_old_post_send
in_full lat_all 20
exit 0
