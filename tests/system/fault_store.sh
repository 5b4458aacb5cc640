#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: hosts
# timeout: 360
# fault_store.sh - the orchestrator of two hosts is started with an empty store, and with an old copy of its own, under
# traffic: no host forgets a container that runs, and says so; when an operator tells one host after the other to take
# the store, programs do not notice.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
own_lab --containers 1

store=$OWN_LAB/ffo/ffo.db

refused() { # HOST WORDS: in its log
	grep -q "warning: orchestrator .*$2" "$OWN_LAB/$1/ffr.log"
}

lists() { # HOST CONTAINER: of the whole cluster
	"$LAB" ffctl "$1" -- container list --all 2>/dev/null | awk -v n="$2" '$1 == n { found = 1 } END { exit !found }'
}

load_both -q 4 -r
load_each load_moves 20 || fail "no traffic"

step "an empty store"
"$LAB" kill orchestrator
mkdir "$OUT/lost"
mv "$store"* "$OUT/lost"
"$LAB" restart orchestrator || fail "restart"
for host in h0 h1; do
	wait_for 30 refused $host 'another store' || fail "$host takes an empty store"
	[[ $("$LAB" ffctl $host -- container list | wc -l) == 2 ]] || fail "$host has forgotten its container"
	"$LAB" ffctl $host -- doctor >"$OUT/doctor" 2>&1 && fail "no word of it from the doctor"
	grep -q 'ffctl store accept' "$OUT/doctor" || fail "no word of it from the doctor"
done
load_each load_unharmed 0 || fail "a connection failed"

step "one host takes it, and then the other"
[[ $("$LAB" ffctl h0 -- store accept) == "1 container put into the orchestrator's store" ]] || fail "store accept"
lists h0 h0c0 || fail "it is not there"
load_each load_unharmed 0 || fail "a connection failed that one host's store does not know"
load_each load_moves 20 || fail "no traffic"
"$LAB" ffctl h1 -- store accept >/dev/null || fail "store accept"
wait_for 30 lists h0 h1c0 || fail "it is not there"
load_each load_unharmed 0 || fail "a connection failed"
load_connects h0c0 h1c0
"$LAB" ffctl h0 -- store accept 2>"$OUT/said" && fail "nothing was to be taken"
grep -q 'are in the orchestrator.s store' "$OUT/said" || fail "$(<"$OUT/said")"

step "an old copy"
"$LAB" kill orchestrator
cp "$store"* "$OUT/" || fail "no store"
"$LAB" restart orchestrator || fail "restart"
wait_for 30 lists h0 h0c0 || fail "it is not there"
"$LAB" ffctl h0 -- container add late >/dev/null || fail "container add"
"$LAB" kill orchestrator
rm "$store"*
cp "$OUT/$(basename "$store")"* "$(dirname "$store")"
"$LAB" restart orchestrator || fail "restart"
wait_for 30 refused h0 'older than this host.s container late' || fail "h0 takes an old store"
"$LAB" ffctl h0 -- store accept >/dev/null || fail "store accept"
lists h0 late || fail "it is not there"
load_each load_unharmed 0 || fail "a connection failed"
load_connects h1c0 h0c0
load_both_stop
exit 0
