#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 600
# pyverbs_64.sh [OPTIONS OF pyverbs.py] - the test suite of rdma-core 64 with its own pyverbs, in a container
# of the lab, as pyverbs.sh runs that of release 44. No package of Debian has it: RDMA_CORE is the folder of
# its sources, built in build/ as docs/programs.md tells.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

((EUID == 0)) || skip "needs root for a lab"
core=${RDMA_CORE-}
[[ -n $core && -e $core/build/python/pyverbs/__init__.py ]] || skip "RDMA_CORE names no folder with build/python/pyverbs"
grep -q 'set(PACKAGE_VERSION "64\.' "$core/CMakeLists.txt" || skip "RDMA_CORE is another release than 64"

# FF_LAB: a lab that is up
export FF_BUILD=$BUILD
if [[ -z ${FF_LAB-} ]]; then
	lab_here
	lab up --engine netns --containers 1 || exit 1
fi
lab exec h0c0 -- env "PYTHONPATH=$core/build/python" /usr/bin/python3 "$HERE/pyverbs.py" "$core/tests" \
	"$HERE/pyverbs-expected-64.txt" --ip "$(lab ip h0c0)" "$@" >"$TMP/out" || failures=1
cat "$TMP/out"
sed -n 's/^# \([0-9]* passed.* failed\),.*/-- \1/p' "$TMP/out"
finish
