#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# night: hosts
# timeout: 600
# fault_zookeeper.sh - the ensemble under traffic: one node of three is killed, then the majority, and
# all are started again; and a router that stood still until its session expired.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
own_lab --containers 2 --store zookeeper
SESSION_S=${SESSION_S:-30} # longer than any session lives

load_both -q 6 --ud 1 -r
load_each load_moves 20 || fail "no traffic"

for node in 0 1 2; do
	step "node $node is killed: two are left, everything works"
	"$LAB" kill orchestrator $node
	load_each load_unharmed 0 || fail "a connection failed"
	wait_for 30 host_is h0 up || fail "h0 is down"
	load_connects h0c1 h1c1
	"$LAB" restart orchestrator $node || fail "restart"
	load_each load_unharmed 0 || fail "a connection failed"
done

step "the majority is killed: what is connected goes on"
"$LAB" kill orchestrator 0
"$LAB" kill orchestrator 1
load_each load_unharmed 0 || fail "a connection failed"
load_connects h0c0 h0c1
load_each load_unharmed 0 || fail "a connection failed"
"$LAB" restart orchestrator 0 || fail "restart"
"$LAB" restart orchestrator 1 || fail "restart"
load_each load_unharmed 0 || fail "a connection failed"
wait_for 60 host_is h0 up || fail "h0 is down"
wait_for 60 host_is h1 up || fail "h1 is down"
load_connects h0c1 h1c1
load_connects h1c1 h0c1
load_both_stop

step "the session of h1 expires while its router stands still"
load_both -q 6 -r
load_each load_moves 20 || fail "no traffic"
router=$(<"$FF_LAB/h1/router.pid")
kill -STOP "$router"
load_use there
wait_for 60 load_failed 6 || fail "lanes do not fail"
wait_for "$SESSION_S" host_is h1 down || {
	kill -CONT "$router"
	fail "the session of h1 does not expire"
}
host_is h0 up h0 || fail "another host's session expired with it"
load_connects h0c0 h0c1
kill -CONT "$router"
wait_for 30 host_is h1 up || fail "h1 does not come back"
load_use there
load_returns 30 6 || fail "lanes do not come back"
load_each load_moves 20 || fail "no traffic"
load_both_stop
exit 0
