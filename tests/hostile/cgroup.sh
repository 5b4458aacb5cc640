#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 360
# cgroup.sh - cgroup.c in a lab of its own, whose router knows the cgroup of the container: by a process that is
# in it, before and after the router's end, and until it is told to forget. Others are in the log a few times.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/holdings.sh"

# The hierarchy that ffr/lib/cgroup.h takes.
if grep -qE '^[0-9]+:([^:]*,)?pids(,[^:]*)?:' /proc/self/cgroup; then
	top=/sys/fs/cgroup/pids
elif grep -qE '^[0-9]+:([^:]*,)?memory(,[^:]*)?:' /proc/self/cgroup; then
	top=/sys/fs/cgroup/memory
else
	top=/sys/fs/cgroup
	[[ -e $top/cgroup.procs ]] || top=/sys/fs/cgroup/unified
fi
above=$top/freeflow-hostile-$$
mkdir "$above" "$above/web" "$above/web/inner" "$above/webx" "$above/webx/inner" 2>/dev/null || {
	rmdir "$above" 2>/dev/null
	skip "no cgroup can be made in $top"
}

cgroups_end() {
	local dir pid
	for dir in "$above"/{web/inner,webx/inner,web,webx,}; do
		while read -r pid; do
			kill -KILL "$pid" && echo "$pid" >"$top/cgroup.procs"
		done <"$dir/cgroup.procs" 2>/dev/null
		wait_for 30 rmdir "$dir"
	done 2>/dev/null
	# what a case that failed has left, deeper than a path can be
	[[ ! -d $above ]] || find "$above" -depth -type d -execdir rmdir {} \; 2>/dev/null
}
trap 'end_test; cgroups_end' EXIT

# CMD... in that cgroup
within() { # FOLDER CMD...
	(
		echo "$BASHPID" >"$1/cgroup.procs" || exit 125
		shift
		exec "$@"
	)
}

member_runs() { # CASE...: of the attack
	within "$above/web" "$LAB" exec h0c0 -- env FF_CGROUP="$above/web" "$attack" "$@"
}

all_given_back() { # as given_back, from within the container's cgroup
	local had
	member_runs cgroup_others || fail "$attack"
	had=$(holdings)
	member_runs || fail "$attack"
	wait_for 60 as_little "$had" || fail "descriptors, threads, kB: the router has $(holdings), had $had"
}

num_refused() {
	router_ctl --json stats h0c0 |
		python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["counters"]["cgroup_refused"])'
}

attack=$BUILD/tests/hostile/cgroup
own_lab --containers 1
(
	echo "$BASHPID" >"$above/web/cgroup.procs"
	exec sleep infinity
) &
member=$!
wait_for 60 grep -q freeflow-hostile "/proc/$member/cgroup" || fail "no process in the cgroup"

step "it is told by a process of it"
router_ctl container set h0c0 --pid $member || fail "container set --pid"
path=$(router_ctl --json container show h0c0 | python3 -c 'import json, sys; print(json.load(sys.stdin)["cgroup"])')
[[ $path == */freeflow-hostile-$$/web ]] || fail "cgroup: $path"
kill $member
wait $member

step "who is not in it is refused, and told why"
inside h0c0 ibv_devinfo >"$OUT/out" 2>&1
grep -q 'no device: .*not in the cgroup' "$OUT/out" || fail "$(cat "$OUT/out")"
within "$above/web" "$LAB" exec h0c0 -- ibv_devinfo >"$OUT/out" 2>&1 || fail "$(cat "$OUT/out")"
wait_for 60 test "$(num_refused)" -ge 1 || fail "cgroup_refused: $(num_refused)"

step "attacks"
all_given_back
(($(num_refused) >= 2000)) || fail "cgroup_refused: $(num_refused)"
lines=$(grep -c 'HELLO refused: its cgroup is' "$FF_LAB/h0/ffr.log")
echo "$(num_refused) refused, $lines lines in the log"
((lines >= 1 && lines <= 100)) || fail "$lines lines"

step "the next router knows it, also when it is removed and made again"
"$LAB" kill router h0
"$LAB" restart router h0 || fail "restart"
rmdir "$above/web/inner" "$above/web" || fail "rmdir"
mkdir "$above/web" "$above/web/inner"
inside h0c0 ibv_devinfo >"$OUT/out" 2>&1
grep -q 'no device: .*not in the cgroup' "$OUT/out" || fail "$(cat "$OUT/out")"
within "$above/web" "$LAB" exec h0c0 -- ibv_devinfo >"$OUT/out" 2>&1 || fail "$(cat "$OUT/out")"

step "none: anybody again"
router_ctl container set h0c0 --cgroup none || fail "container set --cgroup none"
! router_ctl container show h0c0 | grep >/dev/null '^cgroup' || fail "$(router_ctl container show h0c0)"
inside h0c0 ibv_devinfo >/dev/null || fail "ibv_devinfo"

step "what cannot be one is refused"
for path in / /a/.. a "" "$above" /a/ $'/a\nb'; do
	! router_ctl container set h0c0 --cgroup "$path" 2>"$OUT/err" || fail "--cgroup '$path'"
	grep -q '^ffctl: ' "$OUT/err" || fail "$(cat "$OUT/err")"
done
! router_ctl container set h0c0 --pid 0 2>/dev/null || fail "--pid 0"
! router_ctl container set h0c0 --pid 4194304000 2>/dev/null || fail "--pid that is none"

step "container add: from the first HELLO on"
router_ctl container add late --cgroup "/freeflow-hostile-$$/web" >/dev/null || fail "container add"
FFL_SOCKET=$FF_LAB/h0/run/containers/late/ffr.sock LD_LIBRARY_PATH=$BUILD/lib ibv_devinfo >"$OUT/out" 2>&1
grep -q 'no device: .*not in the cgroup' "$OUT/out" || fail "$(cat "$OUT/out")"
router_ctl container rm late || fail "container rm"
router_ctl container add late >/dev/null || fail "container add"
! router_ctl container show late | grep >/dev/null '^cgroup' || fail "the former one's cgroup"
exit 0
