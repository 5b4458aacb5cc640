# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rapidio-inside.sh - what the parts of RapidIO tests in a VM have in common. Sourced.

fail() {
	echo "FAIL $*"
	dmesg | tail -n 30
	exit 1
}

# Until a command succeeds, 100 s at most.
await() {
	local end=$((SECONDS + 100))
	until "$@" 2>/dev/null; do
		((SECONDS < end)) || fail "not so after 100 s: $*"
		sleep 0.05
	done
}

# Ours, or the kernel's if it has them.
load() { # MODULE [PARAMETER...]
	local name=$1
	shift
	if [[ -e ./$name.ko ]]; then insmod "./$name.ko" "$@"; else modprobe "$name" "$@"; fi || fail "insmod $name"
}

clock() {
	local t=$((${EPOCHREALTIME/./} / 1000))
	((${1:-0})) || echo "$2: ok, $(((t - then) / 1000)).$(((t - then) / 100 % 10)) s"
	then=$t
}
clock 1

# Loads are many: modules, and these programs to /tmp, are not in the file system of the machine outside.
modules() { # PROGRAM...
	mkdir /tmp/modules && cp ./*.ko /tmp/modules/ && cd /tmp/modules || exit 1
	(($# == 0)) || (cd /out && cp "$@" /tmp/) || exit 1
	mount -t debugfs debugfs /sys/kernel/debug
	modprobe -q udp_tunnel
}

enumerated() { # DEVICES IN EACH NET...
	local net=0 n
	for n; do
		set -- "/sys/bus/rapidio/devices/0$net":*
		[[ $# -eq $n ]] || return 1
		net=$((net + 1))
	done
}

# Ports of one kernel, and with them what a lab needs.
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

# What a module has not freed, where the kernel looks for that. Of one that is unloaded the frames have no name. The
# kernel's own devices stay (rio_setup_device), and the resource that rio_request_inb_dbell() makes is freed by nobody.
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
