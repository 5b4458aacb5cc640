#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 900
# exhausted.sh - a router without descriptors, without address space, and with a full disk under its
# store: what needs more fails and says so, who is served already is served on, and once there is room
# again everything works.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 4
SMALL=$OWN_LAB/small
mkdir "$SMALL"
mount -t tmpfs -o size=4m tmpfs "$SMALL" || fail "mount"
trap 'umount -l "$SMALL"; end_test' EXIT

router=$(<"$OWN_LAB/h0/router.pid")

# As the router's user: to change the limits of another one's process takes CAP_SYS_RESOURCE.
limit() { # PRLIMIT-OPTIONS...
	local id
	id=$(awk '/^Uid:/ { print $2 }' "/proc/$router/status")
	setpriv --reuid "$id" --regid "$id" --clear-groups prlimit --pid "$router" "$@"
}

descriptors() {
	find "/proc/$router/fd" -mindepth 1 | wc -l
}

alive_and_well() {
	running "$router" || fail "the router is gone: $(tail -n 5 "$OWN_LAB/h0/ffr.log")"
	"$LAB" ffctl h0 -- ping >/dev/null || fail "the router does not answer"
}

step "a neighbour runs all the time"
server h0c2 ib_write_bw -F -D 600
neighbour_server=$SERVER_JOB
"$LAB" exec h0c3 -- ib_write_bw -F -D 600 -p $PORT h0c2 >"$OUT/neighbour" 2>&1 </dev/null &
neighbour=$!
neighbour_moves() {
	(($(counter h0c3 write_ops) > writes))
}
neighbour_served() {
	writes=$(counter h0c3 write_ops)
	wait_for 60 neighbour_moves || fail "the neighbour stands still: $(cat "$OUT/neighbour")"
}
writes=1000
wait_for 60 neighbour_moves || fail "no traffic: $(cat "$OUT/neighbour")"

most=$(limit --nofile --output HARD --noheadings)
# Some room, from none for a session to enough for a part of what the program does.
for room in 1 3 6 9 14; do
	step "$room descriptors left"
	limit --nofile=$(($(descriptors) + room)): || fail "prlimit"
	timeout 10 "$LAB" exec h0c0 -- "$BUILD/tests/system/verbs_mr" >"$OUT/few" 2>&1
	status=$?
	# 124: a connection that cannot be accepted waits for one that can
	refused $status || ((status == 0 || status == 124)) ||
		fail "verbs_mr ended with $status: $(cat "$OUT/few")"
	limit --nofile="$((most)):" || fail "prlimit"
	alive_and_well
	neighbour_served
done
timeout 180 "$LAB" exec h0c0 -- "$BUILD/tests/system/verbs_mr" >"$OUT/enough" 2>&1 ||
	fail "verbs_mr with descriptors again: $(cat "$OUT/enough")"

for room in 1 8 64; do
	step "$room MB of address space left"
	size=$(awk '/^VmSize/ { print $2 }' "/proc/$router/status")
	limit --as=$(((size + room * 1024) * 1024)): || fail "prlimit"
	timeout 120 "$LAB" exec h0c0 -- "$BUILD/tests/system/verbs_mr" >"$OUT/big" 2>&1
	status=$?
	refused $status || ((status == 0)) || fail "verbs_mr ended with $status: $(cat "$OUT/big")"
	limit --as=unlimited:
	alive_and_well
	neighbour_served
done
kill $neighbour "$neighbour_server"
wait $neighbour "$neighbour_server"
pair h0c0 h0c1 ib_write_bw -F -n 1000
bandwidth 1000 65536

step "a full disk"
sed -i "s|^store = .*|store = \"$SMALL/ffo.db\"|" "$OWN_LAB/h0/ffr.conf"
"$LAB" restart router h0 || fail "restart"
router=$(<"$OWN_LAB/h0/router.pid")
"$LAB" ffctl h0 -- container add before --ip 10.9.9.1 >"$OUT/add" 2>&1 || fail "$(cat "$OUT/add")"
dd if=/dev/zero of="$SMALL/ballast" bs=4k >/dev/null 2>&1
full=0
for i in {1..40}; do
	"$LAB" ffctl h0 -- container add "more$i" >"$OUT/add" 2>&1 && continue
	full=1
	break
done
((full)) || fail "40 containers went onto a full disk"
grep -qi 'no space\|ENOSPC\|full' "$OUT/add" || fail "not in words: $(cat "$OUT/add")"
alive_and_well
"$LAB" ffctl h0 -- container show before >/dev/null || fail "what was there cannot be read"
! "$LAB" ffctl h0 -- container show "more$i" >/dev/null 2>&1 || fail "it was added after all"
rm "$SMALL/ballast"
"$LAB" ffctl h0 -- container add "more$i" >"$OUT/add" 2>&1 || fail "with room again: $(cat "$OUT/add")"
"$LAB" ffctl h0 -- container rm "more$i" >"$OUT/add" 2>&1 || fail "$(cat "$OUT/add")"
alive_and_well
"$LAB" restart router h0 || fail "restart"
"$LAB" ffctl h0 -- container show before >/dev/null || fail "it was not kept"
exit 0
