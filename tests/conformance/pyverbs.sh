#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 600
# pyverbs.sh [OPTIONS OF pyverbs.py] - the test suite of rdma-core 44, which Debian ships with
# python3-pyverbs, in a container of the lab. What each test has to do is in pyverbs-expected.txt.
set -u -o pipefail
. "$(dirname "$0")/common.sh"
. "$TREE/tests/rig/shell/pyverbs.sh"

((EUID == 0)) || skip "needs root for a lab"
root=$(pyverbs_root) || skip "python3-pyverbs cannot be had from apt"

lab_here

lab up --engine netns --containers 1 || exit 1
lab exec h0c0 -- env "PYTHONPATH=$(pyverbs_packages "$root")" /usr/bin/python3 \
	"$HERE/pyverbs.py" "$(pyverbs_suite "$root")" "$HERE/pyverbs-expected.txt" \
	--ip "$(lab ip h0c0)" "$@" || failures=1
if [[ $(lab ps | awk '$2 == "router" { print $5 }') == running ]]; then
	same "nothing stays in the router" "$(lab ffctl h0 -- --json stats h0c0 |
		awk -v names="sessions qps mrs" -f "$TREE/tests/rig/shell/numbers.awk")" "0 0 0"
else
	not_ok "the router is alive" "$(lab logs h0 | tail -n 20)"
fi
finish
