#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 600
# storms.sh - one container's registered memory keeps who touches it waiting: it is on a FUSE server that does not answer until
# it is told, it is locked and unlocked all the time, or reclaimed in a memory cgroup that is full. Another container
# registers, makes calls and has traffic, all of it while the attack goes on.
. "$(dirname "$0")/../rig/shell/lab.sh"

own_lab --containers 2
storms=$BUILD/tests/hostile/storms
memory=/sys/fs/cgroup/memory
limit=memory.limit_in_bytes
[[ -e $memory/cgroup.procs ]] || memory=/sys/fs/cgroup limit=memory.max
group=$memory/freeflow-storms-$$
trap 'end_test; wait_for 30 group_gone' EXIT

group_gone() {
	[[ ! -d $group ]] || rmdir "$group" 2>/dev/null
}

said() { # WORDS
	grep -qs "$1" "$OUT/storm" || ended "$storm"
}

neighbour() { # WHEN
	timeout 180 "$LAB" exec h0c1 -- "$BUILD/tests/hostile/tables" neighbour >"$OUT/neighbour" 2>&1 ||
		fail "$1: $(cat "$OUT/neighbour" "$OUT/storm")"
}

goes_on() {
	running "$storm" || fail "it has ended: $(<"$OUT/storm")"
}

play() { # [GROUP] STORM...: in that cgroup
	local status
	rm -f "$OUT/go"
	mkfifo "$OUT/go"
	(
		if [[ $1 == /* ]]; then
			echo "$BASHPID" >"$1/cgroup.procs" || exit
			shift
		fi
		exec "$LAB" exec h0c0 -- "$storms" "$@"
	) <"$OUT/go" >"$OUT/storm" 2>&1 &
	storm=$!
	exec 5>"$OUT/go"
	wait_for 120 said attacks
	if ended "$storm"; then
		exec 5>&-
		wait "$storm"
		status=$?
		((status == 77)) || fail "it does not begin: $status: $(<"$OUT/storm")"
		cat "$OUT/storm"
		return
	fi
	neighbour "beside it"
	goes_on
	echo >&5
	wait_for 120 said "goes on"
	goes_on
	router_ctl ping >/dev/null || fail "ffctl is not served"
	exec 5>&-
	wait "$storm" || fail "$(<"$OUT/storm")"
	cat "$OUT/storm"
	neighbour "behind it"
}

neighbour "before it"
step "a FUSE server that does not answer"
play fuse
step "mlock and munlock"
play mlock
step "reclaim"
if mkdir "$group" 2>/dev/null && echo 64M >"$group/$limit" 2>/dev/null; then
	play "$group" reclaim "$OUT"
else
	echo "no memory cgroup can be made here"
fi
exit 0
