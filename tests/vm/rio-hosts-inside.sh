# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rio-hosts-inside.sh a|b - rio-hosts.sh's part in each of the two VMs: a port with an uplink to the other's, a router of
# one cluster, with a container; programs of a's container listen, those of b's connect, in the same order. a enumerates
# and has the orchestrator; b does the harm, and ends first.
# shellcheck source=/dev/null
. /out/rapidio-inside.sh
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
	# The kernel asks the far switch with spinlocks held (docs/rapidio.md): the answers come on the other CPU.
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
	await scan # of b: when a has enumerated
	# two switches, the other's port
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
	backend = "rio"
	rio_port = 0
	CONF
	await reachable
	taskset -c 0 "$TREE/build/bin/ffr" --config /run/ff/ffr.conf >/out/ffr.log 2>&1 &
	router=$!
	await answers
	ctl container add "c$me" --ip "${container[$me]}" || exit 1
}

# CMD... as a program of the container: its device is the router's. What polls has CPU 0, and so has the router; what a
# board would do by itself has the other one: the NIC's interrupt, and vmport's threads.
inside() {
	FFL_SOCKET=/run/ff/run/containers/c$me/ffr.sock LD_LIBRARY_PATH=$TREE/build/lib \
		timeout 100 taskset -c 0 "$@"
}

# The same in b until somebody listens in a.
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
way_is_there() { grep -E 'by RapidIO|connection lost' /out/ffr.log | tail -n 1 | grep -q by; }

# As await(), but it is the check that fails.
soon() {
	local end=$((SECONDS + 60))
	until "$@"; do
		((SECONDS < end)) || { echo "not so after 60 s: $*"; return 1; }
		sleep 0.1
	done
}

# PROGRAM ARGS..., which say a port: a's listens, b's connects.
pair() {
	soon way_is_there || return 1
	pair_anyhow "$@"
}

pair_anyhow() {
	if [[ $me == a ]]; then inside "$@"; else connect "$@" "${address[a]}"; fi
}

# The same three times, and it passes once: RC gives up after half a second without an answer, which is 20 round trips here,
# and less than what a polling program's machine may lose to others on these CPUs.
once() { # PORT PROGRAM ARGS...
	local i
	passed=0
	for i in 0 1 2; do
		pair "${@:2}" -p $(($1 + i)) && passed=$((passed + 1))
	done
	((passed))
}

rping_() {
	soon way_is_there || return 1
	if [[ $me == a ]]; then inside rping -s -C 20 -v; else connect rping -c -a "${container[a]}" -C 20; fi
}

# PORT ARGS...
ffload() {
	if [[ $me == a ]]; then
		inside "$LOAD" --server --once -p "$1"
	else
		connect "$LOAD" -p "$1" -q 4 --timeout 18 "${@:2}" "${address[a]}"
	fi
}

# In the background, and until it is RapidIO that moves it.
load_begin() {
	soon way_is_there || return 1
	ffload "$@" &
	client=$!
	until ctl stats --qps | grep -qw rio; do
		kill -0 "$client" || { echo "never by RapidIO"; return 1; }
	done
}

loaded() { load_begin "$@" && wait "$client"; }

# Bytes that left by DMA, and those of the two routers' TCP connections, both ways.
moved() { cat "$rapidio"/statistics/bytes_sent; }
by_tcp() {
	ss -Htino '( sport = :7471 or dport = :7471 )' | grep -oP 'bytes_(sent|received):\K\d+' | awk '{ n += $1 } END { print n + 0 }'
}

# Frames of the uplink get lost, both ways, and are sent again.
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

# Of b's port: ffrio says again what a reset has lost.
resets() {
	load_begin 18702 --seconds 5 || return 1
	if [[ $me == b ]]; then
		for _ in 1 2 3; do
			echo soft >"$rapidio"/vmport/reset
			sleep 0.3 # that is how far they are apart
		done
	fi
	wait "$client"
}

# b cuts the uplink until the routers have seen it; no lane may notice, and the way comes back.
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
check rc_pingpong once 18620 ibv_rc_pingpong -g 0 -n 20 -c
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
# TCP has what came while the way was lost, if it was
((bytes > 3000000 && (lost || bytes > 20 * tcp))) || { echo "FAIL: $bytes bytes by RapidIO, $tcp by TCP"; failed=1; }
clock 0 "programs, $bytes bytes by RapidIO, $tcp by TCP, $lost times lost, $passed of 3 polled"
check drops drops
check resets resets
check cuts cuts
clock 0 faults
before=$(moved)
check rc_pingpong-again pair ibv_rc_pingpong -g 0 -n 20 -e -c -s 100000 -p 18609
bytes=$(($(moved) - before))
((bytes > 1500000)) || { echo "FAIL: $bytes bytes by RapidIO after the cut"; failed=1; }
[[ $me == b ]] || await grep -q 0 "$uplink"/up # b is through
! grep -E 'sandbox:|error:' /out/ffr.log || failed=1
grep -E 'RapidIO|lost' /out/ffr.log
kill "$router"
wait "$router" || { echo "FAIL: the router ended with $?"; failed=1; }
[[ $me == b ]] || kill "$orchestrator"
rmmod ffrio || fail "unload of ffrio"
rmmod rio_mport_cdev vmport || fail "unload of vmport"
kmemleak ffrio
exit "$failed"
