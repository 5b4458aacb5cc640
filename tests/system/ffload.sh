#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: netns hosts system-san
# timeout: 480
# ffload.sh - the load that verifies itself between two containers: all operations and sizes; that it
# finds what goes wrong; clients and servers that are killed under it.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
server=$A client=$B

step "all operations, 1 byte to 1 MB, and datagrams"
load_server "$server"
load_client "$client" "$server" --seconds 0 --ud 2
some_of_each() {
	load_moved 3000
}
wait_for 60 some_of_each || fail "no traffic"
load_stop 0
load_tell
for op in send send_imm write write_imm read read_back fetch_add cmp_swap shared_add; do
	(($(load_of ops $op) > 0)) || fail "no $op"
done
(($(load_of ud_received) > 0)) || fail "no datagram arrived"
(($(load_of failures) == 0)) || fail "a lane failed"

step "many lanes of small messages, a deep window"
load_client "$client" "$server" --seconds 2 -q 128 -w 32 -s 1-4096
load_wait 0
load_tell

step "no receive in time: RNR"
load_client "$client" "$server" --seconds 2 -w 64 --receives 1 -s 1-10000
load_wait 0
load_tell
load_server_stop 0

step "it finds a device that goes wrong"
for lie in byte lost unwritten unread stale twice undone shared; do
	load_server "$server"
	load_client "$client" "$server" --seconds 1 -q 2 -s 1-10000 --lie $lie
	load_wait 1
	grep -q 'the lie' "$OUT/load" || fail "$lie: was not told"
	case $lie in
	byte | lost | unwritten) load_server_stop 1 ;;
	*) load_server_stop 0 ;;
	esac
done

step "kill -9 of a client: the server goes on with the next"
load_server "$server"
for _ in 1 2 3; do
	load_client "$client" "$server" --seconds 0
	load_moves 20 || fail "no traffic"
	inside "$client" /bin/sh -c 'kill -KILL -1'
	wait "$LOAD_JOB" 2>/dev/null
done
load_client "$client" "$server" --seconds 1
load_wait 0

step "kill -9 of the server: the client fails, without --reconnect for good"
load_client "$client" "$server" --seconds 0 --timeout 10
load_moves 20 || fail "no traffic"
inside "$server" /bin/sh -c 'kill -KILL -1'
load_server_died
load_wait 3
(($(load_of failures) > 0)) || fail "no lane failed"

step "with --reconnect it goes on with the next server"
load_server "$server"
load_client "$client" "$server" --seconds 0 --timeout 10 -r --ud 1
for round in $(rounds 3); do
	load_moves 20 || fail "round $round: no traffic"
	inside "$server" /bin/sh -c 'kill -KILL -1'
	load_server_died
	load_server "$server"
	load_returns 20 $((9 * round)) || fail "round $round: lanes do not come back"
done
load_stop 0
load_tell
(($(load_of peer_restarts) == 9 * round)) || fail "$(load_of peer_restarts) lanes saw a new server"
load_server_stop 0
exit 0
