#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 360
# zookeeper_backup.sh - backup and restore of a store in ZooKeeper as docs/operate/zookeeper.md tells: the data of one server is
# copied while the others serve, all servers get it, and routers and programs go on meanwhile. A container that is newer
# than the backup keeps its device, and is in the store again after `ffctl store accept`.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/load.sh"
. "$TREE/tests/lab/zk.sh"

why=$(zk_missing)
[[ -z $why ]] || skip "$why"
own_lab --hosts 2 --containers 1 --store zookeeper

ctl() { # HOST ARGS...
	local h=$1
	shift
	"$LAB" ffctl "$h" -- "$@"
}

all_nodes() { # kill|restart
	local n
	for n in 0 1 2; do
		"$LAB" "$1" orchestrator $n || fail "$1 node $n"
	done
}

step "a backup: one server stands still meanwhile"
ctl h0 container add before >/dev/null || fail "container add"
ctl h0 policy allow red blue >/dev/null || fail "policy allow"
"$LAB" stop h1c0
ip=$("$LAB" ip h1c0)
ctl h1 container rm h1c0 || fail "container rm"
"$LAB" kill orchestrator 2
cp -a "$FF_LAB/zk2/data/version-2" "$OUT/backup"
"$LAB" restart orchestrator 2 || fail "restart"

step "what comes after it"
ctl h0 container add after >/dev/null || fail "container add"
ctl h0 policy rm red blue >/dev/null || fail "policy rm"
ctl h1 container add h1c0 --ip "$ip" >/dev/null || fail "container add"
"$LAB" start h1c0 || fail "start"
load_server h1c0
load_client h0c0 h1c0 --seconds 0 -q 3
load_moves 20 || fail "no traffic"

step "a restore, beside programs that run"
all_nodes kill
for n in 0 1 2; do
	rm -r "$FF_LAB/zk$n/data/version-2"
	cp -a "$OUT/backup" "$FF_LAB/zk$n/data/version-2"
done
sleep 15 # as the page says: twice the time that sessions live (6 s), and a while
all_nodes restart
older() { # HOST
	[[ $(ctl "$1" doctor 2>&1) == *"its store is older than this host's container "*"ffctl store accept"* ]]
}
wait_for 60 older h0 || fail "h0: $(ctl h0 doctor 2>&1)"
wait_for 60 older h1 || fail "h1: $(ctl h1 doctor 2>&1)"
load_unharmed 0 || fail "a connection failed"

step "the operator takes it"
ctl h0 store accept || fail "h0"
ctl h1 store accept || fail "h1"
has() { # CONTAINER...: all that the store has
	[[ $(ctl h1 container list --all -q | sort | paste -sd ' ') == "$*" ]]
}
wait_for 60 has after before h0c0 h1c0 || fail "$(ctl h1 container list --all 2>&1)"
[[ $(ctl h1 policy list) == *blue*red*allow* ]] || fail "policy: $(ctl h1 policy list)"
load_unharmed 0 || fail "a connection failed"
exit 0
