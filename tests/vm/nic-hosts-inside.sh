# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nic-hosts-inside.sh a|b - nic-hosts.sh's part in each of the two VMs: a router with a NIC, of one cluster,
# with a container; programs of a's container listen, those of b's connect, in the same order.
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
me=$1
declare -A address=([a]=10.151.9.1 [b]=10.151.9.2)

network_up() {
	modprobe -a crc32_generic rdma_rxe rdma_ucm virtio_net
	until [[ -e /sys/class/net/eth0 ]]; do sleep 0.1; done
	ip addr add "${address[$me]}/24" dev eth0
	ip link set eth0 up
	nic_link 0
}

# The orchestrator is in a.
router_up() {
	mkdir -p /run/ff
	if [[ $me == a ]]; then
		"$TREE/build/bin/ffo" --store /run/ff/ffo.db --listen tcp:10.151.9.1:7470 \
			--pool4 10.88.0.0/24 >/out/ffo.log 2>&1 &
	fi
	cat >/run/ff/ffr.conf <<-CONF
	runtime_dir = "/run/ff/run"
	hostname = "h$me"
	orchestrator = "tcp:10.151.9.1:7470"
	cluster = "vm"
	wire_listen = "tcp:${address[$me]}:7471"
	wire_tls = false
	backend = "verbs"
	nic = "rxe0"
	nic_network = "vm"
	CONF
	until (: </dev/tcp/10.151.9.1/7470) 2>/dev/null; do
		((SECONDS < 60)) || exit 1
		sleep 0.2
	done
	"$TREE/build/bin/ffr" --config /run/ff/ffr.conf >/out/ffr.log 2>&1 &
	until "$TREE/build/bin/ffctl" --admin /run/ff/run/admin.sock ping >/dev/null 2>&1; do
		((SECONDS < 60)) || { cat /out/*.log; exit 1; }
		sleep 0.2
	done
	"$TREE/build/bin/ffctl" --admin /run/ff/run/admin.sock container add "c$me" || exit 1
}

# CMD... as a program of the container: its device is the router's.
inside() {
	FFL_SOCKET=/run/ff/run/containers/c$me/ffr.sock LD_LIBRARY_PATH=$TREE/build/lib \
		timeout 60 "$@"
}

# pair NAME PROGRAM ARGS...: b's comes when a's listens.
pair() {
	local name=$1 i
	shift
	if [[ $me == a ]]; then
		check "$name" inside "$@"
		return
	fi
	for ((i = 0; i < 100; i++)); do
		inside "$@" "${address[a]}" >"/out/$name.log" 2>&1 && break
		grep -qE "Couldn't connect|Unable to connect|Failed to connect" "/out/$name.log" || break
		sleep 0.2
	done
	check "$name" cat "/out/$name.log"
	((i < 100)) && ! grep -qiE "fail|error" "/out/$name.log" || failed=1
}

# That the NIC has sent.
packets() {
	rdma statistic show link rxe0/1 | grep -oP 'sent_pkts \K\d+'
}

network_up
router_up
pair rc_pingpong ibv_rc_pingpong -g 0 -n 50 -p 18600
pair rc_pingpong-events ibv_rc_pingpong -g 0 -n 50 -e -p 18601
pair uc_pingpong ibv_uc_pingpong -g 0 -n 50 -p 18602
pair write_bw ib_write_bw -x 0 -n 100 -s 65536 -p 18603 -F
pair read_bw ib_read_bw -x 0 -n 100 -s 65536 -p 18604 -F
pair send_bw ib_send_bw -x 0 -n 100 -s 4096 -p 18605 -F
pair write_lat ib_write_lat -x 0 -n 100 -p 18606 -F
before=$(packets)
pair ud_pingpong ibv_ud_pingpong -g 0 -n 100 -s 800 -p 18608
sent=$(($(packets) - before)) # all but those that came before there was an address handle
((sent > 80)) || { echo "FAIL: the NIC has sent $sent of 100 datagrams"; failed=1; }
pair ud_pingpong-wire ibv_ud_pingpong -g 0 -n 50 -s 2048 -p 18609
pair ud_send_lat ib_send_lat -c UD -x 0 -n 100 -s 64 -p 18610 -F
pair srq_pingpong ibv_srq_pingpong -g 0 -n 50 -q 4 -p 18611
pair atomic_bw ib_atomic_bw -x 0 -n 100 -p 18607 -F
sent=$(packets)
((sent > 1000)) || { echo "FAIL: the NIC has sent $sent packets"; failed=1; }

# a's NIC goes: all is the wire's. It is back: datagrams go by the routers' UD QPs again, of which a's is another one.
says() {
	local i
	for ((i = 0; i < 300; i++)); do
		grep -q "$1" /out/ffr.log && return 0
		sleep 0.1
	done
	return 1
}
[[ $me == b ]] || { rdma link delete rxe0 && says 'it is gone'; } || failed=1
pair rc_pingpong-without ibv_rc_pingpong -g 0 -n 50 -p 18612
pair ud_pingpong-without ibv_ud_pingpong -g 0 -n 50 -s 800 -p 18613
pair srq_pingpong-without ibv_srq_pingpong -g 0 -n 50 -q 4 -p 18614
[[ $me == b ]] || { nic_link 0 && says 'it is back'; } || failed=1
before=$(packets)
pair ud_pingpong-again ibv_ud_pingpong -g 0 -n 100 -s 800 -p 18615
again=$(($(packets) - before))
((again > 80)) || { echo "FAIL: the NIC has sent $again of 100 datagrams when it was back"; failed=1; }
pair rc_pingpong-again ibv_rc_pingpong -g 0 -n 50 -p 18616
pair srq_pingpong-again ibv_srq_pingpong -g 0 -n 50 -q 4 -p 18617
grep -v info: /out/ffr.log
kill %%
exit "$failed"
