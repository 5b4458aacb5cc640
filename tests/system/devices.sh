#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 300
# devices.sh - the names and the number of a container's devices: what programs see, what an operator is told, and traffic by
# each device. UCX does not take a device that is called mlx5_0 for a ConnectX.
. "$(dirname "$0")/../rig/shell/lab.sh"

own_lab --containers 2
RUN=$FF_LAB/h0/run/containers

step "what an operator is told"
router_ctl container add rail --ip 10.88.0.9 --ip 10.88.0.10 --device-name mlx5_0 --devices 3 >/dev/null || fail "container add"
router_ctl container add one --ip 10.88.0.11 --device-name mlx5_7 >/dev/null || fail "container add"
router_ctl container show rail | grep >/dev/null '^devices *mlx5_0 mlx5_1 mlx5_2$' || fail "$(router_ctl container show rail)"
router_ctl container show h0c0 | grep >/dev/null '^devices *ff0$' || fail "$(router_ctl container show h0c0)"
router_ctl --json container show rail | grep >/dev/null '"devices": 3' || fail "$(router_ctl --json container show rail)"
router_ctl container show rail --docker | grep >/dev/null 'dst=/dev/infiniband/uverbs_ff2' || fail "no flag for the third node"
for name in .. a/b "" -d; do
	out=$(router_ctl container add bad "--device-name=$name" 2>&1) && fail "\"$name\" is taken"
	[[ $out == *"is no name of a device"* ]] || fail "$out"
done
for n in 0 17 x; do
	router_ctl container add bad --devices "$n" >/dev/null 2>&1 && fail "$n devices"
done

# From here on, the lab's containers are these two.
as() { # CONTAINER NAME
	inside "$1" mount --bind "$RUN/$2" /run/freeflow || skip "nothing can be mounted there"
	inside "$1" sh -c 'cd /dev/infiniband && touch uverbs_ff1 uverbs_ff2 && mount --bind /dev/null uverbs_ff1 &&
		mount --bind /dev/null uverbs_ff2; umount -l /sys/class/infiniband /sys/class/infiniband_verbs /sys/class 2>/dev/null; true'
}
as "$A" rail
as "$B" one

step "what programs see"
out=$(inside "$A" ibv_devices | awk '/mlx5/ { print $1, $2 }')
[[ $(cut -d ' ' -f 1 <<<"$out" | xargs) == "mlx5_0 mlx5_1 mlx5_2" && $(cut -d ' ' -f 2 <<<"$out" | sort -u | wc -l) == 3 ]] ||
	fail "$out"
gid() { # DEVICE: its first GID
	inside "$A" ibv_devinfo -v -d "$1" | awk '/GID\[  0\]/ { print $3 }'
}
[[ $(gid mlx5_0) == ::ffff:10.88.0.9, && $(gid mlx5_1) == ::ffff:10.88.0.10, && $(gid mlx5_2) == ::ffff:10.88.0.9, ]] ||
	fail "$(gid mlx5_0) $(gid mlx5_1) $(gid mlx5_2)"
sys=/run/freeflow/sys/class
[[ $(inside "$A" ls $sys/infiniband | xargs) == "mlx5_0 mlx5_1 mlx5_2" ]] || fail "$(inside "$A" ls $sys/infiniband)"
for i in 0 1 2; do
	[[ $(inside "$A" cat $sys/infiniband_verbs/uverbs_ff$i/ibdev) == mlx5_$i ]] || fail "uverbs_ff$i"
	[[ $(inside "$A" readlink -f $sys/infiniband/mlx5_$i/device) == */ff00:0$i:00.0 ]] || fail "device of mlx5_$i"
	[[ $(inside "$A" cat $sys/infiniband/mlx5_$i/node_guid | tr -d :) == $(awk -v d=mlx5_$i '$1 == d { print $2 }' <<<"$out") ]] ||
		fail "node_guid of mlx5_$i"
done
out=$(inside "$B" ibv_devices)
[[ $out == *mlx5_7* && $out != *ff0* ]] || fail "$out"

step "traffic by each device, which its counters have"
bytes() { # DEVICE
	inside "$A" cat "$sys/infiniband/$1/ports/1/counters/port_rcv_data"
}
for i in 0 1 2; do
	was=$(bytes mlx5_$i) others=$(($(bytes mlx5_0) + $(bytes mlx5_1) + $(bytes mlx5_2) - $(bytes mlx5_$i)))
	server "$A" ib_write_bw -F -d mlx5_$i -x 0 -n 100 -s 65536
	inside "$B" ib_write_bw -F -d mlx5_7 -x 0 -n 100 -s 65536 -p $PORT "$A" >"$OUT/client" 2>&1 || fail "$(<"$OUT/client")"
	wait $SERVER_JOB || fail "the server: $(<"$OUT/server")"
	grown() {
		(($(bytes "mlx5_$i") - was >= 100 * 65536 / 4))
	}
	wait_for 60 grown || fail "port_rcv_data of mlx5_$i: $was, $(bytes mlx5_$i)"
	(($(bytes mlx5_0) + $(bytes mlx5_1) + $(bytes mlx5_2) - $(bytes mlx5_$i) == others)) || fail "another one's grew with mlx5_$i"
done

step "rdma_cm uses the first one"
"$LAB" exec "$A" -- rping -s -a 10.88.0.9 -C 5 >"$OUT/server" 2>&1 &
SERVER_JOB=$!
wait_for 60 inside "$B" rping -c -a 10.88.0.9 -C 5 >"$OUT/client" 2>&1 || fail "$(<"$OUT/client")"
wait $SERVER_JOB || fail "rping: $(<"$OUT/server")"

step "UCX: the name is matched, and nothing is taken for mlx5's hardware"
inside "$A" ucx_info -d >"$OUT/info" 2>&1 || fail "ucx_info ended with $?"
for i in 0 1 2; do
	grep -A1 'Transport: rc_verbs$' "$OUT/info" | grep >/dev/null "Device: mlx5_$i:1\$" || fail "no rc_verbs on mlx5_$i"
done
grep -E 'Transport: .*mlx5' "$OUT/info" && fail "it is taken for a ConnectX"
((++PORT))
"$LAB" exec "$A" -- env UCX_NET_DEVICES=mlx5_1:1 UCX_LOG_LEVEL=error ucx_perftest -t tag_bw -s 65536 -n 50 -p $PORT \
	>"$OUT/server" 2>&1 &
SERVER_JOB=$!
wait_for 60 server_ready "$A" || fail "$(<"$OUT/server")"
was=$(bytes mlx5_1)
inside "$B" env UCX_NET_DEVICES=mlx5_7:1 UCX_TLS=rc,ud,self UCX_LOG_LEVEL=error ucx_perftest -t tag_bw -s 65536 -n 50 -p $PORT \
	"$A" >"$OUT/client" 2>&1 || fail "ucx_perftest: $(<"$OUT/client")"
wait $SERVER_JOB || fail "ucx_perftest: $(<"$OUT/server")"
i=1
moved() {
	(($(bytes mlx5_1) - was >= 50 * 65536 / 4))
}
wait_for 60 moved || fail "UCX has not used mlx5_1: $(($(bytes mlx5_1) - was)) words"

if gcc -x c -o "$OUT/direct" - -libverbs -lmlx5 2>/dev/null <<'C'; then
#include <infiniband/mlx5dv.h>
int main(void)
{
	struct ibv_device **l = ibv_get_device_list(0);

	return !l || !l[0] || mlx5dv_is_supported(l[0]);
}
C
	step "libmlx5 does not take it for a ConnectX"
	inside "$A" "$OUT/direct" || fail "mlx5dv_is_supported()"
fi

step "libfabric: a domain for each"
inside "$A" fi_info -p verbs >"$OUT/info" 2>&1 || fail "fi_info: $(<"$OUT/info")"
grep -q 'domain: mlx5_0' "$OUT/info" || fail "$(grep domain "$OUT/info" | sort -u)"
exit 0
