#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# no_uffd.sh - containers that are not given /dev/userfaultfd: nothing of their memory is shared with the
# router, which copies all of it through their processes. Operations of all kinds and sizes, checked, between
# two of them, and with one that has it; also beside programs that want the CPUs, where copies wait. One that dies
# is told of as any other, though a copy finds its memory gone before its session ends.
# all: netns system-san
# night: hosts
# timeout: 600
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
. "$(dirname "$0")/../rig/shell/halves.sh"
server=$A client=$B
MIX=send,send_imm,write,write_imm,read,read_back

lock_down() { # CONTAINER yes|no
	local host
	read -r host <"$FF_LAB/$1/host"
	"$LAB" ffctl "$host" -- container set "$1" --no-uffd "$2" >/dev/null
}

busy() { # PROGRAMS that want a CPU, for as long as the load lasts
	HOGS=()
	for ((i = 0; i < $1; i++)); do
		(while :; do :; done) &
		HOGS+=($!)
	done
}

load() { # SECONDS
	load_server "$server"
	load_client "$client" "$server" --seconds "$1" -q 4 -m $MIX
	load_wait 0
	load_tell
	(($(load_of failures) == 0)) || fail "a lane failed"
	load_server_stop 0
}

# The lab's containers are the next test's as well.
restore() {
	lock_down "$A" no
	lock_down "$B" no
	end_test
}
trap restore EXIT
step "neither has it"
for c in "$A" "$B"; do lock_down "$c" yes || fail "container set $c --no-uffd yes"; done
load 3
for c in "$A" "$B"; do
	(($(counter "$c" pvm_bytes) > 10000000)) || fail "$c: $(counter "$c" pvm_bytes) bytes went through its process"
done
step "beside four programs that want the CPUs"
busy 4
load 3
kill "${HOGS[@]}"
step "a program that dies"
both_halves verbs_peer_dies
step "one has it"
lock_down "$A" no || fail "container set --no-uffd no"
load 2
exit 0
