# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# inside_rapidio.sh - what the RapidIO tests share in their VM. Sourced, in the folder that rapidio_folder() made.

fail() {
	echo "FAIL $*"
	dmesg | tail -n 30
	exit 1
}

# await CMD...: waits until the command succeeds. Ends the test after 100 s.
await() {
	local end=$((SECONDS + 100))
	until "$@" 2>/dev/null; do
		((SECONDS < end)) || fail "did not succeed within 100 s: $*"
		sleep 0.05
	done
}

# Loads our module from this folder, or the kernel's module if there is none in it.
load() { # MODULE [PARAMETER...]
	local name=$1
	shift
	if [[ -e ./$name.ko ]]; then insmod "./$name.ko" "$@"; else modprobe "$name" "$@"; fi || fail "insmod $name"
}

# clock 0 WHAT: prints how long it took since the last call. clock 1: only starts the clock.
clock() {
	local t=$((${EPOCHREALTIME/./} / 1000))
	((${1:-0})) || echo "$2: ok, $(((t - then) / 1000)).$(((t - then) / 100 % 10)) s"
	then=$t
}
clock 1

# Copies the modules and these programs to /tmp, because a test may load the modules hundreds of times, and /out is slow.
modules() { # PROGRAM...
	mkdir /tmp/modules && cp ./*.ko /tmp/modules/ && cd /tmp/modules || exit 1
	(($# == 0)) || (cd /out && cp "$@" /tmp/) || exit 1
	mount -t debugfs debugfs /sys/kernel/debug
	modprobe -q udp_tunnel
}

# Is there this number of devices in each net?
enumerated() { # DEVICES...
	local net=0 n
	for n; do
		set -- "/sys/bus/rapidio/devices/0$net":*
		[[ $# -eq $n ]] || return 1
		net=$((net + 1))
	done
}

# Makes and enumerates ports of one kernel. Also loads what a lab needs.
lab_ports() { # COUNT PROGRAM...
	local n=$1 hdid=0 all=() i
	shift
	for ((i = 0; i < n; i++)); do all+=("$n"); done
	for ((i = 1; i < n; i++)); do hdid+=,-1; done
	modules "$@"
	modprobe -q libcrc32c
	modprobe -a veth bridge
	load rapidio
	load rio_mport_cdev
	load rio-scan
	load vmport ports="$n" hdid="$hdid"
	for ((i = 0; i < n; i++)); do echo $i >/sys/bus/rapidio/scan || fail "scan $i"; done
	enumerated "${all[@]}" || fail "enumeration: $(ls /sys/bus/rapidio/devices)"
}

# Fails if the module has leaked memory, on a kernel that has kmemleak. The stack frames of an unloaded module have no names.
# Two leaks are the kernel's own: the devices of rio_setup_device(), and the resource that rio_request_inb_dbell() makes.
kmemleak() { # MODULE
	local leaks=/sys/kernel/debug/kmemleak
	[[ -e $leaks ]] || return 0
	# An object counts as leaked once it is 5 s old and was missed by two scans.
	sleep 6
	echo scan >$leaks
	echo scan >$leaks
	awk -v module="[$1]" '
		function done() {
			if (ours && !known) {
				bad = bad text
				m++
			}
			known = ours = 0
			text = ""
		}
		/^unreferenced/ { done(); n++ }
		{ text = text $0 "\n" }
		index($0, module) || /^ *\[<[0-9a-f]*>\] 0x/ { ours = 1 }
		/rio_request_inb_dbell/ { known = 1 }
		END { done(); printf "kmemleak: %d leaks, %d of the module\n%s", n, m, bad; exit bad != "" }' $leaks ||
		fail "leaks of $1"
}
