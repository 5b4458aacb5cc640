# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ffrio-inside.sh - ffrio.sh's part in its VM: three ports of vmport in one kernel, enumerated, ffrio on them,
# with FT_LOADS (500) loads and unloads in FT_SECONDS (400) at most, its self-test, and its tools.
# shellcheck source=/dev/null
. /out/rapidio-inside.sh

modules /out/ffrio_test /out/ffrio_ping /out/ffrio_perf
modprobe -q libcrc32c
load rapidio
load rio_mport_cdev
load rio-scan
load vmport ports=3 hdid=0,-1,-1
for i in 0 1 2; do echo $i >/sys/bus/rapidio/scan || fail "scan $i"; done
enumerated 3 3 3 || fail "enumeration: $(ls /sys/bus/rapidio/devices)"
clock 0 enumeration

# With few buffers for the test of 16 senders, with the defaults for the rest.
load ffrio rmbs=10 endpoint_rmbs=2 smbs=6
/tmp/ffrio_test sixteen || exit 1
clock 1
rmmod ffrio || fail "unload after sixteen"

# Buffers that the kernel has not in one piece: the module is there, and says what is not. (With pages of 64 KB it has up to 512 MB.)
if (($(getconf PAGESIZE) < 65536)); then
	load ffrio smbs=256 block_size=1048576
	grep -q 'no 262160 KB in one piece.*lower smbs (256)' /sys/class/rapidio_port/rapidio1/ffrio || fail "why there is no port"
	dmesg | grep -q 'rapidio1: no ffrio here: no 262160 KB' || fail "the kernel's log says no reason"
	/tmp/ffrio_ping -p 1 -n 1 0 2>&1 | tee /dev/stderr | grep -q 'port 1: no 262160 KB' || fail "ffrio_ping says no reason"
	rmmod ffrio || fail "unload without a port"
fi
load ffrio dead_ms=1000
grep -qx ready /sys/class/rapidio_port/rapidio1/ffrio || fail "the port is not ready"
/tmp/ffrio_test || exit 1
clock 1
id=$(cat /sys/class/rapidio_port/rapidio1/port_destid)
/tmp/ffrio_ping -p 1 -l &
await /tmp/ffrio_ping -n 1 "$id"
/tmp/ffrio_ping -n 20 "$id" || fail ping
kill $!
/tmp/ffrio_perf -p 1 -l &
await /tmp/ffrio_perf -n 1 -s 16 "$id" >/dev/null
/tmp/ffrio_perf -n 2 -s 4000000 "$id" || fail perf
/tmp/ffrio_perf -w -n 2 -s 4000000 "$id" || fail "perf -w"
/tmp/ffrio_perf -r -n 2 -s 4000000 "$id" || fail "perf -r"
/tmp/ffrio_perf -z -n 2 -s 4000000 "$id" || fail "perf -z"
kill $!
wait
clock 0 tools
rmmod ffrio || fail "unload with peers"

# Now and then with a peer that is up when it goes. (64 SMBs of 128 KB would be more than the kernel has in one piece.)
end=$((SECONDS + ${FT_SECONDS:-400}))
for ((i = 0; i < ${FT_LOADS:-500} && SECONDS < end; i++)); do
	load ffrio block_size=$((16 << i % 14)) smbs=16 rmbs=$((i % 16 + 1)) dma_channels=$((i % 8 + 1))
	if ((i % 25 == 0)); then
		/tmp/ffrio_ping -p 1 -l &
		await /tmp/ffrio_ping -n 2 -s $((i * 7 + 1)) "$id" >/dev/null
		kill $!
		wait
	fi
	rmmod ffrio || fail "unload $i"
done
clock 0 "$i loads"
rmmod rio_mport_cdev vmport || fail "unload of vmport"
kmemleak ffrio
