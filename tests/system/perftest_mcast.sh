#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns hosts
# night: docker system-san
# timeout: 300
# perftest_mcast.sh - perftest over multicast (-g): each side attaches to a group of its own, the
# other sends to it. ib_send_bw compares the kinds of both GIDs, so that its group is IPv4's, as the
# containers' addresses are.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/perftest.sh"

VERB="send"
lat 1000 8 -c UD -g -x 0
lat 1000 2048 -c UD -g -x 0
lat 1000 64 -c UD -g -x 0 -e
# A router drops a container's datagrams from another host beyond 256 KB that wait for the program's memory, and perftest
# waits for each one.
bw $((HOSTS > 1 ? 100 : 1000)) 2048 -c UD -g -x 0 -M 0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3
exit 0
