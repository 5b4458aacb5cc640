#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 360
# processes.sh - processes.c in a lab of its own: the router has nothing of theirs afterwards.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/holdings.sh"

# Those of a case that failed, and who is frozen in one.
cgroups_end() {
	local dir
	for dir in /sys/fs/cgroup/{,unified/,freezer/}freeflow-hostile; do
		[[ -d $dir ]] || continue
		echo THAWED >"$dir/freezer.state"
		wait_for 30 rmdir "$dir"
	done 2>/dev/null
}
trap 'end_test; cgroups_end' EXIT

own_lab --containers 1
given_back processes_stopped_by_signal "$BUILD/tests/hostile/processes"
exit 0
