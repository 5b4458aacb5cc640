#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rio.sh - the rio backend: two routers of one VM, each on a port of vmport through ffrio. Pingpongs, perftest, rping and ffload
# run between their containers. Then a port is reset and its link is cut, under a load that verifies itself. The unload must
# give all buffers back.
#
# night: vm
# timeout: 1000
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/rapidio.sh"
	rapidio_build
	rapidio_folder rio
	vm_tree "$TMP/rio" || exit 1
	cp "$TREE/deploy/grafana/freeflow.json" "$TMP/rio/"
	vm_checked "$TMP/rio" "${FT_LIMIT:-400}" "$0"
	exit
fi

# shellcheck source=tests/vm/inside_rapidio.sh
. /out/inside_rapidio.sh
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
LOAD=$TREE/build/tests/system/ffload
port=18600

listens() { "$LAB" exec h0c0 -- ss -Hltn "sport = :$1" | grep >/dev/null .; }

# pair PROGRAM ARGS...: h0c0 listens, h1c0 connects.
pair() {
	local pid status=0
	((port++))
	timeout 60 "$LAB" exec h0c0 -- "$@" -p "$port" >/tmp/server.log 2>&1 &
	pid=$!
	await listens "$port"
	timeout 60 "$LAB" exec h1c0 -- "$@" -p "$port" "$("$LAB" ip h0c0)" || status=1
	wait "$pid" || status=1
	cat /tmp/server.log
	return "$status"
}

rping_() {
	local pid status=0
	timeout 60 "$LAB" exec h0c0 -- rping -s -C 20 -v >/tmp/server.log 2>&1 &
	pid=$!
	for ((i = 0; i < 100; i++)); do
		timeout 60 "$LAB" exec h1c0 -- rping -c -a "$("$LAB" ip h0c0)" -C 20 >/tmp/client.log 2>&1 && break
		sleep 0.2
	done
	((i < 100)) || status=1
	wait "$pid" || status=1
	cat /tmp/server.log /tmp/client.log
	return "$status"
}

says() { grep -c "$2" "/tmp/lab/$1/ffr.log"; }
says_more() { (($(says "$1" "$2") > $3)); }
# Waits until the two routers have said more than N0 and N1 times that they reach each other by RapidIO.
both_by_rio() { # N0 N1
	await says_more h0 'by RapidIO' "$1"
	await says_more h1 'by RapidIO' "$2"
}

# Prints how many bytes the ports have moved by DMA.
moved() { cat /sys/class/rapidio_port/rapidio*/statistics/bytes_sent | awk '{ n += $1 } END { print n }'; }

load_begin() {
	timeout 100 "$LAB" exec h0c0 -- "$LOAD" --server -p 18700 >/out/load-server.log 2>&1 &
	server=$!
	await listens 18700
	timeout 100 "$LAB" exec h1c0 -- "$LOAD" -p 18700 --seconds "$1" -q 4 --timeout 18 "${@:2}" \
		"$("$LAB" ip h0c0)" >/out/load.log 2>&1 &
	client=$!
}

load_end() {
	local status=0
	wait "$client" || status=1
	kill "$server"
	wait "$server"
	cat /out/load.log /out/load-server.log
	return "$status"
}

loaded() { load_begin 3 --ud 2 && load_end; }

qps_say_rio() { "$LAB" ffctl h1 -- stats --qps | grep >/dev/null -w rio; }

# Resets the far port under load. ffrio repeats what a reset has lost.
resets() {
	load_begin 4
	await qps_say_rio
	for _ in 1 2 3; do
		echo soft >"$far"/reset
		sleep 0.3 # the time between two resets
	done
	load_end
}

# Cuts the link under load until the routers have seen it. No lane of the load may fail, and RapidIO must come back.
cuts() {
	local n0 n1 lost
	n0=$(says h0 'by RapidIO') n1=$(says h1 'by RapidIO')
	lost=$(($(says h0 'connection lost') + $(says h1 'connection lost')))
	load_begin 8
	await qps_say_rio
	echo 0 >"$far"/link
	await connection_lost "$lost"
	echo 1 >"$far"/link
	load_end || return 1
	both_by_rio "$n0" "$n1"
}
connection_lost() { (($(says h0 'connection lost') + $(says h1 'connection lost') > $1)); }

lab_ports 2
load ffrio dead_ms=1000
clock 0 ports
"$LAB" up --hosts 2 --containers 1 --backend rio || exit 1
clock 0 lab
check first pair ibv_rc_pingpong -g 0 -n 10
both_by_rio 0 0
before=$(moved)
check rc_pingpong pair ibv_rc_pingpong -g 0 -n 20 -c
check rc_pingpong-events pair ibv_rc_pingpong -g 0 -n 50 -e -c -s 100000
check uc_pingpong pair ibv_uc_pingpong -g 0 -n 50 -e -c
check ud_pingpong pair ibv_ud_pingpong -g 0 -n 50 -e -s 2000 -c
check srq_pingpong pair ibv_srq_pingpong -g 0 -n 50 -q 4 -e -c
check xsrq_pingpong pair ibv_xsrq_pingpong -g 0 -n 20 -e
check write_bw pair ib_write_bw -x 0 -F -n 50 -s 65536
check read_bw pair ib_read_bw -x 0 -F -n 50 -s 65536
check send_bw pair ib_send_bw -x 0 -F -n 100 -s 4096 -e
check atomic_bw pair ib_atomic_bw -x 0 -F -n 50
check rping rping_
check ffload loaded
bytes=$(($(moved) - before))
((bytes > 10000000)) || { echo "FAIL: $bytes bytes by RapidIO"; failed=1; }
clock 0 "programs, $bytes bytes"
metrics() {
	python3 "$TREE/tests/rig/tools/prom.py" /tmp/lab/h0/metrics.sock /out/freeflow.json >/tmp/samples || return 1
	grep rio_ /tmp/samples
	grep -q '^freeflow_rio_peers{} 1' /tmp/samples
}
check metrics metrics
doctor() {
	"$TREE/build/bin/ffctl" --admin /tmp/lab/h0/admin.sock doctor >/tmp/doctor 2>&1
	cat /tmp/doctor
	grep -q "RapidIO: $1" /tmp/doctor
}
check doctor doctor 'ffrio has rapidio0'
far=/sys/class/rapidio_port/rapidio1/vmport
check resets resets
check cuts cuts
clock 0 faults
! grep -hE 'sandbox:|error:' /tmp/lab/h?/ffr.log || failed=1
grep -hE 'RapidIO|lost' /tmp/lab/h?/ffr.log
check lab-down "$LAB" down
rmmod ffrio || fail "unload of ffrio"
load ffrio smbs=256 block_size=1048576
check doctor-buffers doctor 'ffrio has no rapidio0: no 262160 KB in one piece'
rmmod ffrio || fail "unload without a port"
rmmod rio_mport_cdev vmport || fail "unload of vmport"
kmemleak ffrio
exit "$failed"
