# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nic-pyverbs-inside.sh PYVERBS - nic-pyverbs.sh's part in the VM: the suite of the package in PYVERBS, whose two sides are queue
# pairs of one process, goes by the NIC's loopback.
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
. "$TREE/tests/rig/shell/pyverbs.sh"
TRAFFIC='^(?!.*xrc)test_(atomic|cq\.CQTest|cq_events|cqex\.CqEx|mr\.(MR|DeviceMemory)Test|parent_domain|qpex|rdmacm|relaxed_ordering|shared_pd)'
SUITE=(env "PYTHONPATH=$(pyverbs_packages "$1")" /usr/bin/python3 "$TREE/tests/conformance/pyverbs.py" "$(pyverbs_suite "$1")"
	"$TREE/tests/vm/nic-pyverbs.txt" --ip 10.151.9.2 -k "${FT_TESTS:-$TRAFFIC}")

# Of the suite's messages the router's copy has no part.
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
