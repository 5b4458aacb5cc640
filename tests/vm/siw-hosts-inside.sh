# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# siw-hosts-inside.sh a|b - siw-hosts.sh's part in each of the two VMs: programs of a's container, or beside its router, listen
# at the NIC's address, and b's connect to it, by rdma_cm.
# shellcheck source=tests/vm/hosts-inside.sh
. /out/tree/tests/vm/hosts-inside.sh
export FF_NIC=siw0
# A client that comes before there is a listener, again and again, may keep that from its connection: siw's own programs as well.
PORT=18600

perf() { # NAME AT-A AT-B PROGRAM ARGS...
	pair "$@" -R -F -p $((++PORT))
}
ping() { # NAME AT-A AT-B SIZE
	local SERVER_ARGS=(-s) CLIENT_ARGS=(-c -a 10.151.9.1 -V)
	pair "$1" "$2" "$3" rping -p $((++PORT)) -C 50 -S "$4" -v
}
ucmatose_pair() {
	local CLIENT_ARGS=(-s 10.151.9.1)
	pair "$1" "$2" "$3" ucmatose -c 3 -C 20 -p $((++PORT))
}
rdma_pair() {
	local CLIENT_ARGS=(-s 10.151.9.1) program=rdma_client
	[[ $me == b ]] || program=rdma_server
	pair "$1" "$2" "$3" "$program" -p $((++PORT))
}

modprobe -a libcrc32c rdma_ucm
insmod /out/siw.ko || exit 1
eth_up 0
rdma link add siw0 type siw netdev eth0
until_is eval "ibv_devinfo -d siw0 | grep -q PORT_ACTIVE" || exit 1
router_up 'nic = "siw0"' 'nic_direct = true'
"${FFCTL[@]}" container add "c$me" || exit 1
[[ $me == b ]] || tell_server
ping rping-reference host host 1000
for p in "ca host" "host cb" "ca cb"; do
	read -r a b <<<"$p"
	ping "rping-$a-$b" "$a" "$b" 100
	ping "rping-60000-$a-$b" "$a" "$b" 60000
	ucmatose_pair "ucmatose-$a-$b" "$a" "$b"
	rdma_pair "rdma_client-$a-$b" "$a" "$b"
done
# Where perftest's client is on iWARP it connects a second time (docs/nic.md), which a container may not be as fast to hear.
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
