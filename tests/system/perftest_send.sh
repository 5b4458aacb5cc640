#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# night: netns docker hosts system-san
# timeout: 600
# perftest_send.sh - ib_send_bw and ib_send_lat with their options.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/perftest.sh"

VERB="send"
for conn in RC UC; do
	usual $conn -e
done
lat 1000 8 -c RC -e
at_night in_full lat 1000 8 -c UC -e
bw 1000 65536 -c UC
for conn in RC UC UD; do
	bw 1000 2048 -c $conn --use-srq
	at_night lat 1000 64 -c $conn --use-srq
done
# Not for UC and UD: nothing holds 16 senders back from more than the SRQ has, and that is lost.
bw 200 2048 --use-srq -q 16
bw 1000 4096 -b -e
# Not -q 16 -b -e: perftest 4.5 waits for the next event of one CQ while completions of the other
# are there, unpolled; with many outstanding at the end it waits for ever (later ones look first).
bw 200 4096 -q 16 -e
bw_all 20 -b -e
at_night in_full lat_all 20

# A datagram is one packet: no size above the MTU.
bw 1000 4096 -c UD
bw 1000 8 -c UD -e
at_night bw 1000 2048 -c UD -b
bw 200 2048 -c UD -q 16
bw 1000 32 -c UD -I 64
at_night in_full bw 1000 1000 -c UD -x 0
at_night lat 1000 8 -c UD
lat 1000 2048 -c UD -e
at_night in_full lat 1000 8 -c UD -I 64
pair "$A" "$B" ib_send_bw -F -a -c UD -n 200
# shellcheck disable=SC2046
bandwidth 200 $(powers 12)
exit 0
