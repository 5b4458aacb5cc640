#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# siw-hosts.sh - the verbs backend on iWARP between two hosts: two VMs, each with a router whose NIC is the kernel's siw, and
# with programs beside the router that use siw themselves. Programs of VM a, in its container or beside its router, listen at
# the NIC's address; those of VM b connect to it, through rdma_cm.
#
# This test is not part of every run, because siw of Linux 6.1 loses the first message of some connections on a busy machine
# (docs/carriers/nic.md). The pair of programs then ends after a minute and fails; the other pairs still run.
#
# night: vm
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/kmod.sh"
	# siw writes to the program's own addresses, which must not be in use in the router.
	VM_APPEND=${VM_APPEND/norandmaps/}

	run() { # a|b
		vm_tree "$TMP/siw-$1"
		cp "$SIW/siw.ko" "$TMP/siw-$1/"
		vm_checked "$TMP/siw-$1" "${FT_LIMIT:-500}" "$0" "$1"
	}

	siw_module
	vm_two run
	exit
fi

# shellcheck source=tests/vm/inside_hosts.sh
. /out/tree/tests/vm/inside_hosts.sh
export FF_NIC=siw0
port=18600

perf() { # NAME AT-A AT-B PROGRAM ARGS...
	pair "$@" -R -F -p $((++port))
}
ping() { # NAME AT-A AT-B SIZE
	local SERVER_ARGS=(-s) CLIENT_ARGS=(-c -a 10.151.9.1 -V)
	pair "$1" "$2" "$3" rping -p $((++port)) -C 50 -S "$4" -v
}
ucmatose_pair() {
	local CLIENT_ARGS=(-s 10.151.9.1)
	pair "$1" "$2" "$3" ucmatose -c 3 -C 20 -p $((++port))
}
rdma_pair() {
	local CLIENT_ARGS=(-s 10.151.9.1) program=rdma_client
	[[ $me == b ]] || program=rdma_server
	pair "$1" "$2" "$3" "$program" -p $((++port))
}

modprobe -a libcrc32c rdma_ucm
insmod /out/siw.ko || exit 1
eth_up 0
rdma link add siw0 type siw netdev eth0
until_is eval "ibv_devinfo -d siw0 | grep >/dev/null PORT_ACTIVE" || exit 1
router_up 'nic = "siw0"' 'nic_direct = true'
"${FFCTL[@]}" container add "c$me" || exit 1
ping rping-reference host host 1000
for p in "ca host" "host cb" "ca cb"; do
	read -r a b <<<"$p"
	ping "rping-$a-$b" "$a" "$b" 100
	ping "rping-60000-$a-$b" "$a" "$b" 60000
	ucmatose_pair "ucmatose-$a-$b" "$a" "$b"
	rdma_pair "rdma_client-$a-$b" "$a" "$b"
done
# No perftest server in a container with its client beside the other router: that client makes two connections on iWARP, and
# a container may be too slow to accept the second one (docs/carriers/nic.md).
for p in "host cb" "ca cb"; do
	read -r a b <<<"$p"
	perf "write_bw-$a-$b" "$a" "$b" ib_write_bw -n 100 -s 65536
	perf "read_bw-$a-$b" "$a" "$b" ib_read_bw -n 100 -s 65536
	perf "send_lat-$a-$b" "$a" "$b" ib_send_lat -n 100 -s 64
done
perf send_bw-ca-cb ca cb ib_send_bw -n 200 -s 4096
grep -v info: /out/ffr.log
kill "$router"
exit "$failed"
