#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# timeout: 300
# memory_share.sh - a router in a memory cgroup of 128 MB: a container takes as much of its memory as it gets, is
# refused, and another one has the device all the same. What it had is given back at its end.
. "$(dirname "$0")/../rig/shell/lab.sh"

name=freeflow-test-$$
if [[ -e /sys/fs/cgroup/memory/memory.usage_in_bytes ]]; then
	cgroup=/sys/fs/cgroup/memory/$name limit=memory.limit_in_bytes
else
	cgroup=/sys/fs/cgroup/$name limit=memory.max
	grep -qs memory /sys/fs/cgroup/cgroup.subtree_control || skip "no memory controller here"
fi
mkdir "$cgroup" 2>/dev/null || skip "no memory cgroup can be made here"
cgroup_end() {
	local i
	for ((i = 0; i < 50; i++)); do
		rmdir "$cgroup" && return
		sleep 0.1
	done 2>/dev/null
}
trap 'end_test; cgroup_end' EXIT
echo $((128 << 20)) >"$cgroup/$limit" || skip "no limit can be set"

own_lab --containers 2
(echo "$BASHPID" >"$cgroup/cgroup.procs" && exec "$LAB" restart router h0) || fail "restart"
router=$(<"$FF_LAB/h0/router.pid")
log=$FF_LAB/h0/ffr.log
grep -q "containers share 96 MB of the router's memory" "$log" || fail "$(tail "$log")"

memory() { # of a container, in bytes
	router_ctl --json container show "$1" |
		python3 -c 'import json,sys; print(json.load(sys.stdin)["usage"]["memory"])'
}
no_memory() { [[ $(memory h0c0) == 0 ]]; }

step "one container takes what it gets"
mkfifo "$OUT/hold"
"$LAB" exec h0c0 -- "$BUILD/tests/system/limits" cq 16000 <"$OUT/hold" >"$OUT/cq" &
job=$!
exec 9>"$OUT/hold"
wait_for 120 grep -qsE 'ENOMEM|max' "$OUT/cq" || fail "limits cq"
grep -q ENOMEM "$OUT/cq" || fail "$(<"$OUT/cq")"
used=$(memory h0c0)
echo "$(<"$OUT/cq"), $used bytes"
((used > 40 << 20 && used < 50 << 20)) || fail "$used bytes"
grep -q 'h0c0: it has .* kB of memory that the router can have' "$log" || fail "$(tail "$log")"
has "$(router_ctl container show h0c0)" '^memory +- +[0-9]+ kB '

step "another one has the device"
got=$(inside h0c1 "$BUILD/tests/system/limits" cq 100 </dev/null) || fail "limits cq"
[[ $got == '100 max' ]] || fail "$got"

step "what it had is given back"
exec 9>&-
wait $job || fail "limits"
wait_for 60 no_memory || fail "$(memory h0c0) bytes"
running "$router" || fail "the router is gone"
