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

step "rdma_cm: an id is on the device of its address"
gcc -Wall -Wextra -x c -o "$OUT/cm_devices" - -lrdmacm -libverbs <<'C' || fail "gcc"
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

static const char *name(const struct rdma_cm_id *id)
{
	return id->verbs ? ibv_get_device_name(id->verbs->device) : "none";
}

/* The devices, then for each address the device of an id that is bound to it, and of one that resolves from it. */
int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(1) };
	struct ibv_context **list = rdma_get_devices(NULL);
	struct rdma_cm_id *id;

	for (int i = 0; list && list[i]; i++)
		printf("%s ", ibv_get_device_name(list[i]->device));
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	for (int i = 2; i < argc; i++) {
		struct sockaddr_in sin = { .sin_family = AF_INET };

		inet_pton(AF_INET, argv[i], &sin.sin_addr);
		if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) || rdma_bind_addr(id, (struct sockaddr *)&sin))
			return 1;
		printf("%s ", name(id));
		rdma_destroy_id(id);
		if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) ||
		    rdma_resolve_addr(id, (struct sockaddr *)&sin, (struct sockaddr *)&to, 2000))
			return 2;
		printf("%s ", name(id));
		rdma_destroy_id(id);
	}
	return 0;
}
C
out=$(inside "$A" "$OUT/cm_devices" 10.88.0.11 0.0.0.0 10.88.0.9 10.88.0.10) || fail "cm_devices ended with $?"
[[ $(xargs <<<"$out") == "mlx5_0 mlx5_1 mlx5_2 none mlx5_0 mlx5_0 mlx5_0 mlx5_1 mlx5_1" ]] || fail "$out"

step "rdma_cm: its bytes are those of that device, from both sides, RC and UD"
moved() { # DEVICE BYTES: its counter has grown by so much, and no other one's has
	local rx=$(($(bytes "$1") - was))
	((rx >= $2 / 4 && $(bytes mlx5_0) + $(bytes mlx5_1) + $(bytes mlx5_2) - was - rx == others))
}
by_cm() { # SERVER'S CONTAINER, DEVICE, SIZE, SERVER'S COMMAND -- CLIENT'S COMMAND
	local in=$1 other=$B device=$2 size=$3 server=()
	[[ $in == "$A" ]] || other=$A
	shift 3
	while [[ $1 != -- ]]; do
		server+=("$1")
		shift
	done
	shift
	was=$(bytes "$device") others=$(($(bytes mlx5_0) + $(bytes mlx5_1) + $(bytes mlx5_2) - $(bytes "$device")))
	"$LAB" exec "$in" -- "${server[@]}" >"$OUT/server" 2>&1 &
	SERVER_JOB=$!
	wait_for 60 inside "$other" "$@" >"$OUT/client" 2>&1 || fail "$*: $(<"$OUT/client")"
	wait $SERVER_JOB || fail "${server[*]}: $(<"$OUT/server")"
	wait_for 60 moved "$device" "$size" || fail "$device: $(bytes mlx5_0) $(bytes mlx5_1) $(bytes mlx5_2), $was and $others before"
}
i=0
for ip in 10.88.0.9 10.88.0.10; do
	by_cm "$A" mlx5_$i 40000 rping -s -a $ip -C 10 -S 4000 -- rping -c -V -a $ip -C 10 -S 4000
	by_cm "$A" mlx5_$i 50000 ucmatose -b $ip -C 5 -S 10000 -- ucmatose -s $ip -C 5 -S 10000
	by_cm "$B" mlx5_$i 50000 ucmatose -b 10.88.0.11 -C 5 -S 10000 -- ucmatose -s 10.88.0.11 -b $ip -C 5 -S 10000
	by_cm "$A" mlx5_$i 5000 udaddy -b $ip -C 5 -S 1000 -- udaddy -s $ip -C 5 -S 1000
	by_cm "$B" mlx5_$i 5000 udaddy -b 10.88.0.11 -C 5 -S 1000 -- udaddy -s 10.88.0.11 -b $ip -C 5 -S 1000
	((++i))
done
by_cm "$A" mlx5_1 40000 rping -s -C 10 -S 4000 -- rping -c -V -a 10.88.0.10 -C 10 -S 4000 # it listens on all addresses

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
used() {
	(($(bytes mlx5_1) - was >= 50 * 65536 / 4))
}
wait_for 60 used || fail "UCX has not used mlx5_1: $(($(bytes mlx5_1) - was)) words"

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
