#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# timeout: 300
# memory.sh - a client in a memory cgroup of 64 MB does all of tests/hostile/memory.c: what is charged to the
# router's cgroup meanwhile is 1 MB at most, and the rings of its sessions.
. "$(dirname "$0")/../rig/shell/lab.sh"

MB=$((1 << 20))
RINGS=2 # MB of the ring segments of the sessions that are there at once, as far as they are touched
attack=${MEMORY_ATTACK:-$BUILD/tests/hostile/memory}
[[ -x $attack ]] || skip "$attack was not built"

# The memory controller: v2's files below /sys/fs/cgroup, v1's in a hierarchy of its own.
name=freeflow-test-$$
if [[ -e /sys/fs/cgroup/memory/memory.usage_in_bytes ]]; then
	top=/sys/fs/cgroup/memory limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
	usage=memory.usage_in_bytes
else
	top=/sys/fs/cgroup limit=memory.max peak=memory.peak usage=memory.current
	grep -qs memory $top/cgroup.subtree_control || skip "no memory controller here"
fi
mkdir $top/$name-client $top/$name-router 2>/dev/null || skip "no memory cgroup can be made here"

cgroups_end() {
	local pid
	cat $top/$name-*/cgroup.procs 2>/dev/null | while read -r pid; do
		echo "$pid" >$top/cgroup.procs 2>/dev/null
	done
	rmdir $top/$name-client $top/$name-router
}
trap 'end_test; cgroups_end' EXIT

[[ -e $top/$name-router/$peak ]] || skip "the kernel does not tell how much a cgroup had at most"
echo $((64 * MB)) >$top/$name-client/$limit || skip "no limit can be set"
own_lab --containers 1

step "the attacks, from 64 MB"
inside h0c0 "$attack" -l >/dev/null || fail "$attack"
echo "$(<"$FF_LAB/h0/router.pid")" >$top/$name-router/cgroup.procs || fail "the router's cgroup"
before=$(<$top/$name-router/$usage)
(
	echo $BASHPID >$top/$name-client/cgroup.procs || exit
	exec "$LAB" exec h0c0 -- "$attack"
) || fail "$attack"
after=$(<$top/$name-router/$peak)
held=$(((after - before) / 1024))
echo "the router held $held kB more at most"
((held <= (1 + RINGS) * 1024)) || fail "$held kB"
