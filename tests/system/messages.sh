#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# messages.sh - what ffr and ffctl say of what is missing: a ZooKeeper that is not there, a store that is damaged, a full disk,
# a NIC, RapidIO.
# test: netns
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/own_router.sh"

logged() {
	grep -e "$1" "$D/log" >/dev/null
}

step "no ZooKeeper"
echo digest:a:b >"$D/auth"
chmod 600 "$D/auth"
start "orchestrator = \"zookeeper:127.0.0.1:9?auth=$D/auth\""
wait_for 20 logged 'ZooKeeper at 127.0.0.1:9 is not reached' || fail "$(cat "$D/log")"
stop
! logged 'credentials: \|may not call' || fail "$(cat "$D/log")"

# problem WORDS: ffctl doctor tells of that.
problem() {
	ctl doctor >"$OUT/doctor" 2>&1
	grep "^PROBLEM *orchestrator: .*$1" "$OUT/doctor" >/dev/null || fail "doctor: $(cat "$OUT/doctor")"
}

step "a store that cannot be read"
mkdir "$D/small"
mount -t tmpfs -o size=1m tmpfs "$D/small" || fail "mount"
trap 'umount -l "$D/small"; end_test' EXIT
store="store = \"$D/small/r.db\""
start "$store"
ctl container add web >/dev/null || fail "add"
stop
cp "$D/small/r.db" "$D/copy.db"
echo garbage garbage garbage garbage | dd of="$D/small/r.db" conv=notrunc 2>/dev/null
start "$store"
logged 'containers are not known' || fail "$(cat "$D/log")"
! ctl container list >"$OUT/list" 2>&1 || fail "an empty list: $(cat "$OUT/list")"
grep 'r.db: damaged' "$OUT/list" >/dev/null || fail "list: $(cat "$OUT/list")"
! ctl container add db >"$OUT/add" 2>&1 || fail "added"
grep 'r.db: damaged' "$OUT/add" >/dev/null || fail "add: $(cat "$OUT/add")"
problem 'r.db: damaged'
stop

step "a full disk"
cp "$D/copy.db" "$D/small/r.db"
start "$store"
ctl doctor >"$OUT/doctor" 2>&1
! grep "no space" "$OUT/doctor" || fail "$(cat "$OUT/doctor")"
dd if=/dev/zero of="$D/small/ballast" bs=4k >/dev/null 2>&1
problem 'no space left'
rm "$D/small/ballast"
stop

step "a store of no bytes"
: >"$D/small/r.db"
rm -f "$D/small/r.db-wal"
start "$store"
logged 'r.db: the file is empty: a new store' || fail "$(cat "$D/log")"
stop

if [[ ! -e /sys/class/infiniband ]]; then
	step "no NIC"
	printf '%s\n' 'nic = "rxe0"' 'hostname = "hx"' >"$D/ffr.conf"
	! timeout 30 "$BUILD/bin/ffr" --config "$D/ffr.conf" --socket-dir "$D/run" 2>"$D/log" || fail "it runs"
	logged 'load the NIC.s driver' || fail "$(cat "$D/log")"
	logged 'carriers: No such device' || fail "$(cat "$D/log")"
	! logged 'not implemented' || fail "$(cat "$D/log")"
fi

if [[ ! -e /dev/ffrio ]]; then
	step "no RapidIO"
	start 'rio_port = 0' 'wire_listen = "tcp:127.0.0.1:7471"' 'wire_tls = false'
	logged 'RapidIO: .*no /dev/ffrio: load ffrio.ko: other hosts are reached by TCP' || fail "$(cat "$D/log")"
	stop
fi

step "a configuration that is a directory"
! timeout 30 "$BUILD/bin/ffr" --config "$D/run" 2>"$D/log" || fail "it runs"
logged "$D/run: Is a directory" || fail "$(cat "$D/log")"
exit 0
