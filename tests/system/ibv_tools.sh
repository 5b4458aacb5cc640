#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ibv_tools.sh - ibv_devices, ibv_devinfo and ibv_asyncwatch: the device that a container sees.
# test: netns docker
# all: system-san
. "$(dirname "$0")/../rig/shell/lab.sh"

containers=(h0c0)
[[ $ENGINE != docker ]] || containers+=(h0c2 h0c3)

for c in "${containers[@]}"; do
	step "ibv_devices in $c"
	inside "$c" ibv_devices >"$OUT/devices" || fail "ibv_devices: status $?"
	cat "$OUT/devices"
	[[ $(grep -c '^ *ff0[[:space:]]*[0-9a-f]\{16\}$' "$OUT/devices") == 1 ]] ||
		fail "not one device ff0 with a GUID"
	[[ $(wc -l <"$OUT/devices") == 3 ]] || fail "more than the one device"

	step "ibv_devinfo -v in $c"
	inside "$c" ibv_devinfo -v >"$OUT/devinfo" 2>&1 || fail "ibv_devinfo: status $?"
	cat "$OUT/devinfo"
	for want in 'hca_id:[[:space:]]*ff0' 'state:[[:space:]]*PORT_ACTIVE (4)' \
		'phys_port_cnt:[[:space:]]*1' 'atomic_cap:[[:space:]]*ATOMIC_' 'max_qp:[[:space:]]*[1-9]' \
		'max_srq:[[:space:]]*[1-9]' 'node_guid:[[:space:]]*[0-9a-f:]\{19\}' \
		'active_mtu:[[:space:]]*4096'; do
		grep -qs "$want" "$OUT/devinfo" || fail "ibv_devinfo has no $want"
	done
	# GID 0 is the container's address; every GID printed belongs to it.
	ip=$("$LAB" ip "$c")
	gid=$(printf '::ffff:%s' "$ip")
	# shellcheck disable=SC2086
	hex=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' ${ip//./ })
	grep -qs "GID\[ *0\].*\($gid\|$hex\)" "$OUT/devinfo" ||
		fail "GID 0 is not $gid"
	! grep -iE 'fail|error' "$OUT/devinfo" || fail "ibv_devinfo complains"
done

step "ibv_devinfo -d of a device that is not there"
! inside h0c0 ibv_devinfo -d mlx5_0 || fail "ibv_devinfo found mlx5_0"

step "the library writes nothing of its own"
inside h0c0 true >"$OUT/quiet" 2>&1 || fail "true: status $?"
[[ ! -s $OUT/quiet ]] || fail "it wrote: $(cat "$OUT/quiet")"

step "ibv_asyncwatch waits, and ends when told to"
"$LAB" exec h0c0 -- ibv_asyncwatch -d ff0 >"$OUT/watch" 2>&1 &
job=$!
wait_for 60 grep -qs 'async event FD' "$OUT/watch" || fail "ibv_asyncwatch: $(cat "$OUT/watch")"
running $job || fail "ibv_asyncwatch ended: $(cat "$OUT/watch")"
kill $job
wait $job
[[ $? == 143 ]] || fail "ibv_asyncwatch ended in another way"
exit 0
