#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: hosts
# night: hosts
# timeout: 360
# fault_orchestrator.sh - the orchestrator of two hosts, one daemon, is killed under traffic, or is lost to one of them: what
# is connected goes on with what the routers know; when it is back they agree again, and new regions and
# connections work.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
own_lab --containers 2

load_both -q 6 --ud 1 -r
load_each load_moves 20 || fail "no traffic"
for round in $(rounds 3); do
	step "round $round: kill -9"
	"$LAB" kill orchestrator
	load_each load_unharmed 0 || fail "round $round: a connection failed without the orchestrator"
	step "round $round: within a host, connections are made without it"
	load_connects h0c0 h0c1
	load_each load_unharmed 0 || fail "round $round: a connection failed without the orchestrator"
	"$LAB" restart orchestrator || fail "restart"
	load_each load_unharmed 0 || fail "round $round: a connection failed when it was back"
	for host in h0 h1; do
		wait_for 90 host_is $host up || fail "round $round: $host is not up again"
	done
	step "round $round: new regions and connections between the hosts"
	load_connects h0c1 h1c1
	load_connects h1c1 h0c1
done
load_both_stop

step "one host loses the orchestrator, and the hosts have each other"
load_both -q 6 -r --timeout 14
load_each load_moves 20 || fail "no traffic"
"$LAB" partition h1 ffo
wait_for 90 host_is h1 down || fail "h1 is not down"
load_each load_unharmed 0 || fail "a connection failed when h1 had no orchestrator"
step "new regions and connections to the host without it"
load_connects h0c1 h1c1
load_each load_unharmed 0 || fail "a connection failed when h1 had no orchestrator"
"$LAB" heal h1 ffo
wait_for 90 host_is h1 up || fail "h1 is not up again"
load_each load_unharmed 0 || fail "a connection failed when h1 had its orchestrator back"
load_connects h1c1 h0c1
load_both_stop

step "router and orchestrator die together"
load_both -q 6 -r --timeout 12
load_each load_moves 20 || fail "no traffic"
"$LAB" kill router h1
"$LAB" kill orchestrator
load_each wait_for 90 load_failed 6 || fail "lanes do not fail"
"$LAB" restart orchestrator || fail "restart"
"$LAB" restart router h1 || fail "restart"
load_each load_returns 120 6 || fail "lanes do not come back"
load_both_stop
exit 0
