#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# night: netns hosts system-san
# timeout: 600
# qemu.sh - QEMU's migration over RDMA: a guest of 1 GB (tests/rig/tools/migrated_guest.c), which looks at all of
# its memory again and again while it runs, moves from one container to another and finds its memory there
# as it must be. Once with memory registered a chunk at a time, as it is sent, and once with all of it
# registered at first (rdma-pin-all). The guest is emulated: nothing of it depends on /dev/kvm.
. "$(dirname "$0")/../rig/shell/lab.sh"

command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86"
grep -q rdma_resolve_addr "$(command -v qemu-system-x86_64)" || skip "this QEMU has no migration over RDMA"

gcc -m32 -ffreestanding -nostdlib -static -fno-pic -no-pie -fno-stack-protector -mgeneral-regs-only \
	-fno-asynchronous-unwind-tables -fcf-protection=none -Wl,-Ttext=0x100000 -Wl,--build-id=none \
	-O2 -o "$OUT/guest" "$TREE/tests/rig/tools/migrated_guest.c" || fail "the guest"
MOVED=$((1013 << 20)) # of the guest's pages, those that are not zero
PASSES=2

# qemu NAME CONTAINER ARGS...: its serial port is NAME.serial, its monitor takes what is written to NAME.in
# and answers in NAME.said, both in JSON, and its job is $QEMU.
qemu() {
	local name=$1 container=$2 keep
	shift 2
	rm -f "$OUT/$name".*
	mkfifo "$OUT/$name.in"
	# shellcheck disable=SC2034
	exec {keep}<>"$OUT/$name.in" # what is written waits there for QEMU, and nobody waits for QEMU to read
	"$LAB" exec "$container" -- qemu-system-x86_64 -machine pc -accel tcg -m 1024 -nodefaults -display none \
		-kernel "$OUT/guest" -serial "file:$OUT/$name.serial" -qmp stdio "$@" \
		<"$OUT/$name.in" >"$OUT/$name.said" 2>"$OUT/$name.errors" &
	QEMU=$!
	# What is written before it has said a word it may never read.
	wait_for 60 greeted "$name" || show "no monitor"
	monitor "$name" qmp_capabilities
}

greeted() { # NAME
	grep -qs '"QMP"' "$OUT/$1.said" || ended "$QEMU"
}

monitor() { # NAME COMMAND [ARGUMENTS]
	echo "{\"execute\": \"$2\", \"arguments\": {${3-}}}" >"$OUT/$1.in"
}

pin_all() { # NAME true|false
	monitor "$1" migrate-set-capabilities "\"capabilities\": [{\"capability\": \"rdma-pin-all\", \"state\": $2}]"
}

passes() { # NAME
	grep -cs '^pass .* good' "$OUT/$1.serial" || true
}

has_passed() { # NAME N
	(($(passes "$1") + 0 >= $2))
}

migrated() {
	monitor source query-migrate
	nap 0.2
	grep -q '"status": "\(completed\|failed\)"' "$OUT/source.said" || ended "$SOURCE" || ended "$DESTINATION"
}

# The migration moves bytes, until it is over.
migrates() {
	local last='' at=0
	until migrated; do
		at=$(sed -n 's/.*"transferred": \([0-9]*\).*/\1/p' "$OUT/source.said" | tail -n 1)
		if [[ $at != "$last" ]]; then
			last=$at
			still=$SECONDS
		fi
		((SECONDS - still < 60)) || return 1
	done
}

show() {
	tail -n 3 "$OUT"/{source,destination}.{said,errors,serial}
	fail "$@"
}

listening() {
	(($(counter "$B" cm_listeners) > 0)) || ended "$DESTINATION"
}

migration() { # true|false: rdma-pin-all
	local ip before moved start at still
	ip=$("$LAB" ip "$B")
	step "rdma-pin-all $1"
	qemu source "$A"
	SOURCE=$QEMU
	wait_for 60 has_passed source 1 || show "the guest does not run"
	qemu destination "$B" -incoming defer
	DESTINATION=$QEMU
	pin_all destination "$1"
	monitor destination migrate-incoming "\"uri\": \"rdma:$ip:4444\""
	wait_for 60 listening || show "the destination does not listen"
	running $DESTINATION || show "the destination has gone"
	before=$(counter "$A" tx_bytes)
	pin_all source "$1"
	monitor source migrate-set-parameters '"max-bandwidth": 100000000000'
	start=${EPOCHREALTIME/./}
	monitor source migrate "\"uri\": \"rdma:$ip:4444\""
	still=$SECONDS
	migrates || show "no byte has moved for 60 s"
	grep -q '"status": "completed"' "$OUT/source.said" || show "it failed"
	moved=$(($(counter "$A" tx_bytes) - before))
	printf '   %d ms, %d MB\n' $(((${EPOCHREALTIME/./} - start) / 1000)) $((moved >> 20))
	((moved >= MOVED)) || show "the router moved $((moved >> 20)) MB"
	monitor source quit
	wait $SOURCE || show "the source ended with $?"

	# The pass that it was in the midst of, and whole ones.
	wait_for 60 has_passed destination $((PASSES + 1)) || show "the guest does not go on"
	monitor destination quit
	wait $DESTINATION || show "the destination ended with $?"
	at=$(sed -n 's/^pass \([0-9]*\) good.*/\1/p' "$OUT/source.serial" | tail -n 1)
	[[ $(sed -n '1s/^.*pass \([0-9]*\) good.*/\1/p' "$OUT/destination.serial") == $((at + 1)) ]] ||
		show "the guest did not go on where it was"
	! grep -h bad "$OUT"/{source,destination}.serial || show "the guest's memory is not what it was"
}

migration false
migration true
exit 0
