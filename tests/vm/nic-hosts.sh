#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nic-hosts.sh - the verbs backend between two hosts: two VMs, each with a router whose NIC is the kernel's rxe, and with one
# container. Programs in a's container listen; those in b's container connect, in the same order.
#
# night: vm
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/common.sh"
	vm_two vm_test 420 "$0"
	exit
fi

# shellcheck source=tests/vm/inside_hosts.sh
. /out/tree/tests/vm/inside_hosts.sh

both() { pair "$1" ca cb "${@:2}"; }

modprobe -a crc32_generic rdma_rxe rdma_ucm
eth_up 0
nic_link 0
router_up 'nic = "rxe0"' 'nic_network = "vm"'
"${FFCTL[@]}" container add "c$me" || exit 1
both rc_pingpong ibv_rc_pingpong -g 0 -n 50 -p 18600
both rc_pingpong-events ibv_rc_pingpong -g 0 -n 50 -e -p 18601
both uc_pingpong ibv_uc_pingpong -g 0 -n 50 -p 18602
both write_bw ib_write_bw -x 0 -n 100 -s 65536 -p 18603 -F
both read_bw ib_read_bw -x 0 -n 100 -s 65536 -p 18604 -F
both send_bw ib_send_bw -x 0 -n 100 -s 4096 -p 18605 -F
both write_lat ib_write_lat -x 0 -n 100 -p 18606 -F
before=$(packets)
both ud_pingpong ibv_ud_pingpong -g 0 -n 100 -s 800 -p 18608
# The router's wire carries the first datagrams, until there is an address handle for the NIC.
sent=$(($(packets) - before))
((sent > 80)) || { echo "FAIL: the NIC has sent $sent of 100 datagrams"; failed=1; }
both ud_pingpong-wire ibv_ud_pingpong -g 0 -n 50 -s 2048 -p 18609
both ud_send_lat ib_send_lat -c UD -x 0 -n 100 -s 64 -p 18610 -F
both srq_pingpong ibv_srq_pingpong -g 0 -n 50 -q 4 -p 18611
both atomic_bw ib_atomic_bw -x 0 -n 100 -p 18607 -F
sent=$(packets)
((sent > 1000)) || { echo "FAIL: the NIC has sent $sent packets"; failed=1; }

# Without a's NIC the routers' wire carries everything. When the NIC is back, datagrams use the routers' UD QPs, and a's
# router has a new one.
[[ $me == b ]] || { rdma link delete rxe0 && says 'it is gone'; } || failed=1
both rc_pingpong-without ibv_rc_pingpong -g 0 -n 50 -p 18612
both ud_pingpong-without ibv_ud_pingpong -g 0 -n 50 -s 800 -p 18613
both srq_pingpong-without ibv_srq_pingpong -g 0 -n 50 -q 4 -p 18614
[[ $me == b ]] || { nic_link 0 && says 'it is back'; } || failed=1
before=$(packets)
both ud_pingpong-back ibv_ud_pingpong -g 0 -n 100 -s 800 -p 18615
sent=$(($(packets) - before))
((sent > 80)) || { echo "FAIL: the NIC has sent $sent of 100 datagrams when it was back"; failed=1; }
both rc_pingpong-back ibv_rc_pingpong -g 0 -n 50 -p 18616
both srq_pingpong-back ibv_srq_pingpong -g 0 -n 50 -q 4 -p 18617
grep -v info: /out/ffr.log
kill "$router"
exit "$failed"
