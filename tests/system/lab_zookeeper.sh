#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 360
# lab_zookeeper.sh - a lab of three hosts on a ZooKeeper ensemble: its nodes die and come back one by one
# and by majority, one is cut off, and the routers share what is in it and go on without it.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/lab/zk.sh"

why=$(zk_missing)
[[ -z $why ]] || skip "$why"

modes() {
	local n
	for n in 0 1 2; do
		zk_mode "$FF_LAB/zk$n"
	done | sort | paste -sd ' '
}

modes_are() {
	[[ $(modes) == "$1" ]]
}

states() {
	"$LAB" ps | awk '$2 == "zookeeper" { print $5 }' | paste -sd ' '
}

# A new container in the store, made on h1.
stored() { # NAME
	"$LAB" ffctl h1 -- container add "$1" >"$OUT/add" 2>&1
}

routers_answer() {
	local h
	for h in h0 h1 h2; do
		timeout 5 "$LAB" ffctl $h -- container show ${h}c0 >/dev/null || fail "the router of $h"
	done
}

step "three hosts, three nodes"
own_lab --hosts 3 --containers 1 --store zookeeper
modes_are "follower follower leader" || fail "the ensemble is '$(modes)'"
[[ $(states) == "running running running" ]] || fail "lab ps: $(states)"
routers_answer
stored first || fail "$(cat "$OUT/add")"

step "each node dies and comes back"
for n in 0 1 2; do
	"$LAB" kill orchestrator $n || fail "kill"
	[[ $(states) == *stopped* ]] || fail "node $n runs"
	wait_for 60 modes_are "follower leader" || fail "without node $n the others are '$(modes)'"
	wait_for 60 stored "without$n" || fail "without node $n: $(cat "$OUT/add")"
	"$LAB" restart orchestrator $n || fail "restart"
	wait_for 60 modes_are "follower follower leader" || fail "with node $n they are '$(modes)'"
done

step "all die: the routers go on"
for n in 0 1 2; do
	"$LAB" kill orchestrator $n || fail "kill"
done
routers_answer
! stored nowhere || fail "it was stored nowhere"
for n in 2 0 1; do
	"$LAB" restart orchestrator $n || fail "restart"
done
wait_for 30 stored again || fail "$(cat "$OUT/add")"

step "a node is cut off and healed"
"$LAB" partition zk1 || fail "partition"
# Asked in its own namespace, it still answers, but not for an ensemble.
wait_for 60 modes_are "follower leader" || fail "they are '$(modes)'"
wait_for 60 stored beside || fail "$(cat "$OUT/add")"
"$LAB" heal zk1 || fail "heal"
wait_for 30 modes_are "follower follower leader" || fail "they are '$(modes)'"
routers_answer

step "down"
"$LAB" down || fail "down"
[[ -z $(left "$OWN_LAB") ]] || fail "down left: $(left "$OWN_LAB")"
OWN_LAB=
exit 0
