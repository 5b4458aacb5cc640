#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 3600
# ucx_gtest.sh [FILTER...] - UCX's own tests of its transports rc_verbs and ud_verbs, both ends of each in one
# process in a container. No package has them: UCX_GTEST is the folder of its program gtest, built as
# docs/programs.md tells. Its own watchdog ends a test that hangs.
. "$(dirname "$0")/../rig/shell/lab.sh"

gtest=${UCX_GTEST-}
[[ -n $gtest && -x $gtest/gtest ]] || skip "UCX_GTEST names no folder with gtest"
gtest=$(readlink -f "$gtest")
(($#)) || set -- "*rc_v*" "*ud_v*"

# Tests of UCX that want one vendor's device, so that they fail with the kernel's rxe as well: the length of an
# address, which without mlx5's indirect memory keys has no key in it; and values of ECE, which rxe refuses, too.
THEIRS='rc_verbs/test_rc_iface_flush_remote.size_no_flush_remote/*'
for value in 0 custom inf; do
	THEIRS+=":rc_verbs/test_rc_ece.ece_$value/*"
done

failed=()
for filter; do
	# A test that ends the program has to be seen as failed.
	inside "$A" timeout 3500 "$gtest/gtest" "--gtest_filter=$filter-$THEIRS" >"$OUT/report" 2>&1
	status=$?
	passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\{0,1\}\.$/\1/p' "$OUT/report")
	[[ -n $passed ]] || {
		tail -n 60 "$OUT/report"
		fail "gtest --gtest_filter=$filter ended with $status before its end"
	}
	# It counts those that it skips as passed.
	skipped=$(grep -c '^\[ *SKIP \]' "$OUT/report")
	mapfile -t bad < <(sed -n 's/^\[  FAILED  \] \([^ ,]*\).*/\1/p' "$OUT/report" | grep / | sort -u)
	for name in ${bad[@]+"${bad[@]}"}; do
		sed -n "\,^\[ RUN      \] $name,,\,^\[  FAILED  \] $name,p" "$OUT/report"
	done
	failed+=(${bad[@]+"${bad[@]}"})
	step "--gtest_filter=$filter: $((passed - skipped)) passed, ${#bad[@]} failed, $skipped skipped"
done
((!${#failed[@]})) || fail "${failed[*]}"
