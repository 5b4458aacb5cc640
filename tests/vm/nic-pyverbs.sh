#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nic-pyverbs.sh - rdma-core's test suite in a container, through the NIC's GID, on rxe of the newest kernel. The two sides of
# each test are queue pairs of one process, which talk through the NIC's loopback. nic-pyverbs.txt says how each test must end.
#
# FT_TESTS is a regular expression that chooses other tests than those with traffic: `^test_(?!mlx5|efa|odp)` chooses all that
# are in the list. With FT_PLAIN=1 the same tests run on the NIC without freeflow first. nic-odp.sh runs some of the tests with
# traffic.
#
# night: vm
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	NEWER=1
	. "$(dirname "$0")/common.sh"
	. "$TREE/tests/rig/shell/pyverbs.sh"
	root=$(pyverbs_root) || skip "python3-pyverbs cannot be had from apt"
	vm_test "${FT_LIMIT:-1100}" "$0" "$root"
	exit
fi

# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
. "$TREE/tests/rig/shell/pyverbs.sh"
TRAFFIC='^(?!.*xrc)test_(atomic|cq\.CQTest|cq_events|cqex\.CqEx|mr\.(MR|DeviceMemory)Test|parent_domain|qpex|rdmacm|relaxed_ordering|shared_pd)'
SUITE=(env "PYTHONPATH=$(pyverbs_packages "$1")" /usr/bin/python3 "$TREE/tests/conformance/pyverbs.py" "$(pyverbs_suite "$1")"
	"$TREE/tests/vm/nic-pyverbs.txt" --ip 10.151.9.2 -k "${FT_TESTS:-$TRAFFIC}")

# The NIC has carried the suite's messages; the router has not copied them itself.
carried() {
	local sent
	sent=$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)
	echo "the NIC has sent $sent packets"
	((sent > 500))
}

nothing_stays() {
	[[ $("$LAB" ffctl h0 -- --json stats h0c0 | awk -v names="sessions qps mrs" -f "$TREE/tests/rig/shell/numbers.awk") == "0 0 0" ]]
}

NIC_MTU=9000
nic_up 0
[[ -z ${FT_PLAIN-} ]] || "${SUITE[@]}" --dev rxe0 --gid 1 --list
"$LAB" up --backend verbs --containers 1 || exit 1
NIC_INDEX=$(("$("$LAB" exec h0c0 -- ibv_devinfo -v | grep -c 'GID\[')" - 1))
check pyverbs "$LAB" exec h0c0 -- "${SUITE[@]}" --gid "$NIC_INDEX" -v
cat /out/pyverbs.log
check carried carried
check nothing-stays until_is nothing_stays
check lab-down "$LAB" down
exit "$failed"
