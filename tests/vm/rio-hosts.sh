#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rio-hosts.sh - the rio backend between two hosts: two VMs, each with a port of vmport, ffrio, a router and a container. The
# switches of the two VMs are joined over UDP. Programs in a's container listen; those in b's container connect, in the same
# order. Then frames of the uplink are lost, the port is reset, and the uplink is cut, under a load that verifies itself. VM a
# enumerates and has the orchestrator; VM b injects the faults and ends first. The unload must give all buffers back.
#
# night: vm
# timeout: 1400
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/rapidio.sh"

	run() { # ROLE, which is the folder's name, too
		vm_checked "$TMP/$1" "${FT_LIMIT:-500}" "$0" "$1"
	}

	rapidio_build
	for role in a b; do
		rapidio_folder $role
		vm_tree "$TMP/$role" || exit 1
	done
	vm_two run
	exit
fi

# shellcheck source=tests/vm/inside_rapidio.sh
. /out/inside_rapidio.sh
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
me=$1
LOAD=$TREE/build/tests/system/ffload
declare -A address=([a]=10.151.9.1 [b]=10.151.9.2) other=([a]=b [b]=a) container=([a]=10.88.0.10 [b]=10.88.0.11)
rapidio=/sys/class/rapidio_port/rapidio0
uplink=/sys/devices/platform/vmport-uplink.0

network_up() {
	modprobe virtio_net
	await test -e /sys/class/net/eth0
	# The kernel asks the far switch with spinlocks held (docs/carriers/rapidio.md), so the answers must come on the other CPU.
	awk -F: '/virtio.*(input|output)/ { print $1 }' /proc/interrupts | while read -r irq; do
		echo 2 >"/proc/irq/$irq/smp_affinity"
	done
	ip addr add "${address[$me]}/24" dev eth0
	ip link set eth0 up
}

scan() { taskset -c 0 sh -c 'echo 0 >/sys/bus/rapidio/scan'; }

ports_up() {
	local to=${address[$me]}:7000-${address[${other[$me]}]}:7000
	modules
	modprobe -q libcrc32c
	load rapidio
	load rio_mport_cdev
	if [[ $me == a ]]; then load vmport ports=1 hdid=0 uplink="$to"; else load vmport ports=1 uplink="$to"; fi
	await grep -q 1 "$uplink"/up
	load rio-scan
	await scan # b's succeeds once a has enumerated
	# two switches and the other VM's port
	enumerated 3 || fail "enumeration: $(ls /sys/bus/rapidio/devices)"
	load ffrio
}

ctl() { "$TREE/build/bin/ffctl" --admin /run/ff/admin.sock "$@"; }
reachable() { (: <"/dev/tcp/10.151.9.1/7470"); }
answers() { ctl ping >/dev/null; }

router_up() {
	mkdir -p /run/ff/run
	chown 60999:60999 /run/ff
	if [[ $me == a ]]; then
		mkdir /run/ffo
		"$TREE/build/bin/ffo" --store /run/ffo/ffo.db --listen tcp:10.151.9.1:7470 \
			--pool4 10.88.0.0/24 >/out/ffo.log 2>&1 &
		orchestrator=$!
	fi
	cat >/run/ff/ffr.conf <<-CONF
	runtime_dir = "/run/ff/run"
	admin_socket = "/run/ff/admin.sock"
	user = "60999:60999"
	hostname = "h$me"
	orchestrator = "tcp:10.151.9.1:7470"
	cluster = "vm"
	wire_listen = "tcp:${address[$me]}:7471"
	wire_tls = false
	rio_port = 0
	CONF
	await reachable
	taskset -c 0 "$TREE/build/bin/ffr" --config /run/ff/ffr.conf >/out/ffr.log 2>&1 &
	router=$!
	await answers
	ctl container add "c$me" --ip "${container[$me]}" || exit 1
}

# Runs the command as a program of the container: its RDMA device is the router's. Programs that poll and the router share
# CPU 0. The other CPU does what hardware would do by itself: the NIC's interrupt, and vmport's threads.
inside() {
	FFL_SOCKET=/run/ff/run/containers/c$me/ffr.sock LD_LIBRARY_PATH=$TREE/build/lib \
		timeout 100 taskset -c 0 "$@"
}

# Runs a client in b, as soon as the server in a listens: a client that was refused starts again for up to 100 s. Any other
# failure is the result.
connect() {
	local end=$((SECONDS + 100))
	until inside "$@" >/tmp/program.log 2>&1; do
		if ((SECONDS > end)) || ! grep -qiE "couldn't connect|unable to connect|failed to connect|not connected|REJECTED" \
			/tmp/program.log; then
			cat /tmp/program.log
			return 1
		fi
		sleep 0.2
	done
	cat /tmp/program.log
}

says() { grep -c "$1" /out/ffr.log; }
says_more() { (($(says "$1") > $2)); }
way_is_there() { grep -E 'by RapidIO|connection lost' /out/ffr.log | tail -n 1 | grep >/dev/null by; }

# soon CMD...: waits until the command succeeds, for up to 60 s. Unlike await(), it does not end the test.
soon() {
	local end=$((SECONDS + 60))
	until "$@"; do
		((SECONDS < end)) || { echo "did not succeed within 60 s: $*"; return 1; }
		sleep 0.1
	done
}

# pair PROGRAM ARGS...: the program in a listens, that in b connects. The arguments tell the port.
pair() {
	soon way_is_there || return 1
	pair_anyhow "$@"
}

pair_anyhow() {
	if [[ $me == a ]]; then inside "$@"; else connect "$@" "${address[a]}"; fi
}

rping_() {
	soon way_is_there || return 1
	if [[ $me == a ]]; then inside rping -s -C 20 -v; else connect rping -c -a "${container[a]}" -C 20; fi
}

ffload() { # PORT ARGS...
	if [[ $me == a ]]; then
		inside "$LOAD" --server --once -p "$1"
	else
		connect "$LOAD" -p "$1" -q 4 --timeout 18 "${@:2}" "${address[a]}"
	fi
}

# Starts a load in the background and waits until RapidIO carries it.
load_begin() {
	soon way_is_there || return 1
	ffload "$@" &
	client=$!
	until ctl stats --qps | grep >/dev/null -w rio; do
		kill -0 "$client" || { echo "never by RapidIO"; return 1; }
	done
}

loaded() { load_begin "$@" && wait "$client"; }

# Prints how many bytes the port has sent by DMA.
moved() { cat "$rapidio"/statistics/bytes_sent; }
# Prints how many bytes the TCP connections between the routers have carried, both ways.
by_tcp() {
	ss -Htino '( sport = :7471 or dport = :7471 )' | grep -oP 'bytes_(sent|received):\K\d+' | awk '{ n += $1 } END { print n + 0 }'
}

# Drops frames of the uplink, both ways, under load. They must be sent again.
drops() {
	local before status=0
	before=$(cat "$uplink"/frames_dropped_injected)
	echo 2000 >"$uplink"/drop_rate
	loaded 18701 --seconds 5 || status=1
	echo 0 >"$uplink"/drop_rate
	grep -H . "$uplink"/frames_* | sed 's/.*frames_//' | paste -sd ' '
	(($(cat "$uplink"/frames_dropped_injected) > before)) || status=1
	return "$status"
}

# Resets b's port under load. ffrio repeats what a reset has lost.
resets() {
	load_begin 18702 --seconds 5 || return 1
	if [[ $me == b ]]; then
		for _ in 1 2 3; do
			echo soft >"$rapidio"/vmport/reset
			sleep 0.3 # the time between two resets
		done
	fi
	wait "$client"
}

# VM b cuts the uplink under load until the routers have seen it. No lane of the load may fail, and RapidIO must come back.
cuts() {
	local up lost
	up=$(says 'by RapidIO') lost=$(says 'connection lost')
	load_begin 18703 --seconds 8 || return 1
	[[ $me == a ]] || echo 0 >"$uplink"/link
	soon says_more 'connection lost' "$lost" || return 1
	[[ $me == a ]] || echo 1 >"$uplink"/link
	wait "$client" || return 1
	soon grep -q 1 "$uplink"/up && soon says_more 'by RapidIO' "$up"
}

network_up
ports_up
clock 0 ports
router_up
clock 0 router
check first pair_anyhow ibv_rc_pingpong -g 0 -n 10 -p 18600
await way_is_there
before=$(moved) tcp=$(by_tcp) lost=$(says 'connection lost')
# A polling program, with a timeout of 4 s for each try. That of ibv_rc_pingpong gives up after half a second in all, which
# is 20 round trips here, and less than what this VM may lose to other programs on the machine.
check send_lat pair ib_send_lat -x 0 -F -n 20 -s 4096 -u 20 -p 18620
check rc_pingpong-events pair ibv_rc_pingpong -g 0 -n 50 -e -c -s 100000 -p 18602
check uc_pingpong pair ibv_uc_pingpong -g 0 -n 50 -e -c -p 18603
check ud_pingpong pair ibv_ud_pingpong -g 0 -n 50 -e -s 2000 -c -p 18604
check srq_pingpong pair ibv_srq_pingpong -g 0 -n 50 -q 4 -e -c -p 18605
check write_bw pair ib_write_bw -x 0 -F -n 50 -s 65536 -p 18606
check read_bw pair ib_read_bw -x 0 -F -n 50 -s 65536 -p 18607
check send_bw pair ib_send_bw -x 0 -F -n 100 -s 4096 -e -p 18608
check rping rping_
check ffload loaded 18700 --seconds 4 --ud 2
bytes=$(($(moved) - before)) tcp=$(($(by_tcp) - tcp)) lost=$(($(says 'connection lost') - lost))
# While the connection by RapidIO was lost, if ever, TCP carried the messages.
((bytes > 3000000 && (lost || bytes > 20 * tcp))) || { echo "FAIL: $bytes bytes by RapidIO, $tcp by TCP"; failed=1; }
clock 0 "programs, $bytes bytes by RapidIO, $tcp by TCP, $lost times lost"
check drops drops
check resets resets
check cuts cuts
clock 0 faults
before=$(moved)
check rc_pingpong-after-cut pair ibv_rc_pingpong -g 0 -n 20 -e -c -s 100000 -p 18609
bytes=$(($(moved) - before))
((bytes > 1500000)) || { echo "FAIL: $bytes bytes by RapidIO after the cut"; failed=1; }
[[ $me == b ]] || await grep -q 0 "$uplink"/up # b has ended
! grep -E 'sandbox:|error:|Permission denied' /out/ffr.log || failed=1
grep -E 'RapidIO|lost' /out/ffr.log
kill "$router"
wait "$router" || { echo "FAIL: the router ended with $?"; failed=1; }
[[ $me == b ]] || kill "$orchestrator"
rmmod ffrio || fail "unload of ffrio"
rmmod rio_mport_cdev vmport || fail "unload of vmport"
kmemleak ffrio
exit "$failed"
