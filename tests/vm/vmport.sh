#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# vmport.sh - kmod's vmport.ko in VMs with Debian's kernel and that kernel's own RapidIO as modules. Sparse checks the modules.
# In the VM `one` there are three ports of one kernel, enumerated through the switch, with the self-test, rio_cm and rionet,
# and a hundred loads (20 in CI). The VMs `a` and `b` have two ports each, and their switches are joined over UDP; a enumerates, b
# discovers. For a kernel that looks for mistakes, with FT_KERNEL and FT_KDIR, see kmod-debug.
#
# all: vm
# night: vm
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/rapidio.sh"

	run() { # ROLE, which is the folder's name, too
		vm_checked "$TMP/$1" "${FT_LIMIT:-240}" "$0" "$1"
	}

	rapidio_build
	status=0
	rapidio_folder one vmport_test
	run one || status=1
	rapidio_folder a vmport_test
	rapidio_folder b vmport_test
	vm_two run || status=1
	exit $status
fi

role=$1
class=/sys/class/rapidio_port
uplink=/sys/devices/platform/vmport-uplink.0
# shellcheck source=tests/vm/inside_rapidio.sh
. /out/inside_rapidio.sh

modules /out/vmport_test

# Loads and unloads the module this many times. Every 20th load enumerates the ports.
loads() { # COUNT
	local i
	for ((i = 0; i < $1; i++)); do
		if ((i % 20)); then
			load vmport ports=$((i % 3 + 1)) dma_channels=$((i % 8 + 1))
		else
			load vmport ports=3 hdid=0,-1,-1 uplink=127.0.0.1:7000-127.0.0.1:7001
			for n in 0 1 2; do echo $n >/sys/bus/rapidio/scan || fail "scan $n of load $i"; done
			enumerated 3 3 3 || fail "enumeration of load $i: $(ls /sys/bus/rapidio/devices)"
		fi
		rmmod vmport || fail "unload $i"
	done
}

rionet() {
	ip netns add n0
	ip netns add n1
	ip link set "$1" netns n0
	ip link set "$2" netns n1
	ip -n n0 addr add 10.7.0.1/24 dev "$1"
	ip -n n1 addr add 10.7.0.2/24 dev "$2"
	ip -n n0 link set "$1" up
	ip -n n1 link set "$2" up
	await ip netns exec n0 ping -q -c 1 -W 1 10.7.0.2 >/dev/null
	ip netns exec n0 ping -q -c 20 -i 0.01 -s 2000 10.7.0.2 | grep >/dev/null ' 0% packet loss' || fail "rionet ping"
	head -c 3000000 /dev/urandom >/tmp/sent
	# nc stops at the end of its own input, so it reads from a pipe that nobody writes to
	mkfifo /tmp/silence && exec 9<>/tmp/silence
	ip netns exec n1 timeout 60 busybox nc -l -p 5000 >/tmp/received <&9 &
	await transfer
	wait $!
	cmp /tmp/sent /tmp/received || fail "rionet TCP"
	# Leave the interfaces up: rionet frees its doorbells when an interface is closed, and again at the unload.
	rmmod rionet || fail "unload of rionet"
	ip netns del n0
	ip netns del n1
}

transfer() {
	ip netns exec n0 timeout 60 busybox nc 10.7.0.2 5000 </tmp/sent
}

if [[ $role == one ]]; then
	load rapidio
	load rio_mport_cdev
	load rio-scan
	loads "${FT_LOADS:-100}"
	clock 0 loads
	load vmport ports=3 hdid=0,-1,-1
	for i in 0 1 2; do echo $i >/sys/bus/rapidio/scan || fail "scan $i"; done
	enumerated 3 3 3 || fail "enumeration: $(ls /sys/bus/rapidio/devices)"
	[[ $(cat $class/rapidio{0,1,2}/port_destid | sort -u | wc -l) == 3 ]] || fail "destination IDs"
	clock 0 enumeration
	load rio_cm
	/tmp/vmport_test || exit 1
	clock 1
	load rionet
	rionet eth0 eth1
	clock 0 rionet
	grep -H . $class/rapidio0/statistics/* | sed 's/.*statistics.//' | grep -v ':0$' | paste -sd ' '
	rmmod rio_cm rio_mport_cdev || fail "unload of clients"
	rmmod vmport || fail "unload after enumeration"
	kmemleak vmport
	exit 0
fi

modprobe -q virtio_net
await test -e /sys/class/net/eth0
declare -A address=([a]=10.151.9.1 [b]=10.151.9.2)
# The kernel asks the far switch with spinlocks held (docs/carriers/rapidio.md), so the answers must come on the other CPU.
awk -F: '/virtio.*(input|output)/ { print $1 }' /proc/interrupts | while read -r irq; do
	echo 2 >"/proc/irq/$irq/smp_affinity"
done
scan() {
	taskset -c 0 sh -c "echo $1 >/sys/bus/rapidio/scan"
}
ip addr add "${address[$role]}/24" dev eth0
ip link set eth0 up
if [[ $role == a ]]; then
	load rapidio
	load vmport timeout_ms=10000 ports=2 hdid=0,-1 uplink=10.151.9.1:7000-10.151.9.2:7000
else
	load rapidio
	load vmport timeout_ms=10000 ports=2 uplink=10.151.9.2:7000-10.151.9.1:7000
fi
load rio_mport_cdev
load rio_cm
await grep -q 1 $uplink/up
clock 0 uplink
load rio-scan

if [[ $role == b ]]; then
	# Discovery finds something once a has enumerated.
	for i in 0 1; do await scan $i; done
	clock 0 discovery
	timeout 120 /tmp/vmport_test serve || fail serve
	clock 0 serve
	load rionet
	ip addr add 10.7.0.2/24 dev eth1
	ip link set eth1 up
	ping -q -c 1 -W 60 -w 60 10.7.0.1 >/dev/null || fail "rionet ping to a"
	# VM a cuts the link at the end.
	await grep -q 0 $uplink/up
	rmmod vmport
	exit 0
fi
for i in 0 1; do await scan $i; done
# two switches and three other ports
enumerated 5 5 || fail "enumeration: $(ls /sys/bus/rapidio/devices)"
clock 0 enumeration
# The port after a's second one is b's first port: two switches away, and the first that is found behind the uplink.
id=$(cat $class/rapidio1/port_destid)
/tmp/vmport_test peer $((id + 1)) || exit 1
load rionet
ip addr add 10.7.0.1/24 dev eth1
ip link set eth1 up
await ping -q -c 1 -W 1 10.7.0.2 >/dev/null
ping -q -c 10 -i 0.05 -s 3000 10.7.0.2 | grep >/dev/null ' 0% packet loss' || fail "rionet ping"
clock 0 rionet
grep -H . $uplink/frames_* | sed 's/.*frames_//' | paste -sd ' '
echo 0 >$uplink/link
await grep -q 0 $uplink/up
exit 0
