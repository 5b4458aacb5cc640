#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ffrio.sh - kmod's ffrio.ko in a VM with Debian's kernel, that kernel's own RapidIO as modules, and three enumerated ports of
# vmport. Sparse checks the modules. The self-test loses and repeats doorbells, lets DMA fail, cuts links and resets ports
# under load, and makes calls and doorbells of any kind. The tools run. Then the module is loaded and unloaded FT_LOADS (500)
# times, for at most FT_SECONDS (400). Each unload must give all buffers back. For a kernel that looks for mistakes, with
# FT_KERNEL and FT_KDIR, see kmod-debug.
#
# all: vm
# night: vm
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/rapidio.sh"
	rapidio_build
	rapidio_folder ffrio ffrio_test ffrio_ping ffrio_perf
	vm_checked "$TMP/ffrio" "${FT_LIMIT:-1100}" "$0"
	exit
fi

# shellcheck source=tests/vm/inside_rapidio.sh
. /out/inside_rapidio.sh

modules /out/ffrio_test /out/ffrio_ping /out/ffrio_perf
modprobe -q libcrc32c
load rapidio
load rio_mport_cdev
load rio-scan
load vmport ports=3 hdid=0,-1,-1
for i in 0 1 2; do echo $i >/sys/bus/rapidio/scan || fail "scan $i"; done
enumerated 3 3 3 || fail "enumeration: $(ls /sys/bus/rapidio/devices)"
clock 0 enumeration

# The test of 16 senders has few buffers. All others have the defaults.
load ffrio rmbs=10 endpoint_rmbs=2 smbs=6
/tmp/ffrio_test sixteen || exit 1
clock 1
rmmod ffrio || fail "unload after sixteen"

# The kernel has no buffer of this size in one piece. The module still loads, and says why it does not use the port. (A kernel
# with pages of 64 KB has up to 512 MB in one piece.)
if (($(getconf PAGESIZE) < 65536)); then
	load ffrio smbs=256 block_size=1048576
	grep -q 'no 262160 KB in one piece.*lower smbs (256)' /sys/class/rapidio_port/rapidio1/ffrio || fail "why there is no port"
	dmesg | grep >/dev/null 'rapidio1: no ffrio here: no 262160 KB' || fail "the kernel's log says no reason"
	/tmp/ffrio_ping -p 1 -n 1 0 2>&1 | tee /dev/stderr | grep >/dev/null 'port 1: no 262160 KB' || fail "ffrio_ping says no reason"
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

# Every 25th time a peer is up at the unload. (64 SMBs of 128 KB would be more than the kernel has in one piece.)
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
