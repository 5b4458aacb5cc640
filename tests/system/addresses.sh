#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: docker
# timeout: 480
# addresses.sh - a container's GIDs are the addresses that Docker gave it: bridge, IPv6, macvlan, overlay; of the pool by label; a
# network that is connected while it runs, seen by a program as IBV_EVENT_GID_CHANGE; addresses that two containers have.
. "$(dirname "$0")/../rig/shell/lab.sh"

docker=(docker)
follower=
trap 'end_ours; end_test' EXIT
end_ours() {
	local ids
	[[ -z $follower ]] || kill "$follower" 2>/dev/null
	ids=$("${docker[@]}" ps -aq --filter "label=freeflow.test=addresses")
	# shellcheck disable=SC2086
	[[ -z $ids ]] || "${docker[@]}" rm -f $ids >/dev/null
}

own_lab --containers 1
[[ -e $FF_LAB/h0/docker.private ]] || skip "the machine's own Docker has no runtime of ours"
docker+=(-H "unix://$FF_LAB/h0/docker.sock")
image=$("${docker[@]}" images --format '{{.Repository}}:{{.Tag}}' | head -n 1)

follow() {
	# with the rights of its unit; the lab's socket is the router's user's, so DAC_OVERRIDE beside them
	setpriv --bounding-set -all,+sys_admin,+sys_ptrace,+dac_override --no-new-privs "$BUILD/bin/ff-hook" --admin "$FF_LAB/h0/admin.sock" follow >>"$OUT/follow" 2>&1 &
	follower=$!
}
start() { # NAME OPTIONS...
	"${docker[@]}" run -d --label freeflow.test=addresses --runtime freeflow --label "freeflow.io/name=$1" --name "ff-$1" \
		-v "$TREE/build:$TREE/build:ro" "${@:2}" "$image" sleep 1000 >/dev/null || fail "$1 does not start"
}
stop() { # NAME...
	"${docker[@]}" rm -f "${@/#/ff-}" >/dev/null || fail "rm $*"
}
ips() { # NAME: as the router has them
	router_ctl --json container show "$1" | python3 -c 'import json, sys; print(*json.load(sys.stdin)["ips"])'
}
engines() { # NAME [FIELD]: as Docker has them
	"${docker[@]}" inspect -f "{{range .NetworkSettings.Networks}}{{.${2:-IPAddress}}} {{end}}" "ff-$1" | xargs
}
has() { # NAME ADDRESSES
	[[ $(ips "$1") == "$2" ]]
}
becomes() { # NAME ADDRESSES
	wait_for 60 has "$1" "$2" || fail "$1 has $(ips "$1"), not $2: $(<"$OUT/follow")"
}
in_pool() { # NAME
	[[ $(ips "$1") == "10."*" fd77:"* ]] || fail "$1 has not addresses of the pool: $(ips "$1")"
}
network() { # NAME OPTIONS...
	"${docker[@]}" network create "${@:2}" "$1" >"$OUT/network" 2>&1
}
follow

step "bridge: what Docker gave it, as it starts"
start one
[[ -n $(engines one) ]] || fail "no address"
has one "$(engines one)" || fail "$(ips one) is not $(engines one)"
"${docker[@]}" exec ff-one ibv_devinfo -v | grep >/dev/null "GID\[ *0\]:.*::ffff:$(engines one)" || fail "GID 0: $("${docker[@]}" exec ff-one ibv_devinfo -v)"

step "a network connected while it runs: an event, and the connection of before goes on"
network more --subnet 10.61.0.0/24 --ipv6 --subnet fd61::/64 || fail "network: $(<"$OUT/network")"
start peer
"${docker[@]}" exec ff-one "$BUILD/tests/system/addresses" >"$OUT/events" 2>&1 &
wait_for 60 grep -q "^GIDS $(engines one)$" "$OUT/events" || fail "$(<"$OUT/events")"
"${docker[@]}" exec ff-peer ib_write_bw -F -x 0 -D 8 >"$OUT/server" 2>&1 &
server=$!
wait_for 60 "${docker[@]}" exec ff-peer sh -c 'grep -q ":4853 [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6' || fail "$(<"$OUT/server")"
"${docker[@]}" exec ff-one ib_write_bw -F -x 0 -D 8 "$(engines peer)" >"$OUT/client" 2>&1 &
client=$!
writes() {
	(($(router_ctl --json stats one | awk -v names="tx_bytes" -f "$TREE/tests/rig/shell/numbers.awk") > 1000000))
}
wait_for 60 writes || fail "no traffic: $(<"$OUT/client")"
first=$(engines one)
"${docker[@]}" network connect --ip 10.61.0.9 --ip6 fd61::9 more ff-one || fail "network connect"
becomes one "$first 10.61.0.9 fd61::9"
wait_for 60 grep -q "^GIDS $first 10.61.0.9 fd61::9$" "$OUT/events" || fail "$(<"$OUT/events")"
wait $client || fail "the write ended: $(<"$OUT/client")"
wait $server || fail "the write ended: $(<"$OUT/server")"
! grep -q EVENT "$OUT/events" || fail "$(<"$OUT/events")"

step "its new addresses are reached, by rdma_cm"
"${docker[@]}" network connect --ip 10.61.0.10 --ip6 fd61::10 more ff-peer || fail "network connect"
becomes peer "$(engines peer | xargs -n 1 | grep -v 10.61) 10.61.0.10 fd61::10"
for a in 10.61.0.9 fd61::9; do
	"${docker[@]}" exec ff-one rping -s -a $a -C 10 >"$OUT/server" 2>&1 &
	server=$!
	rping_works() {
		"${docker[@]}" exec ff-peer rping -c -a "$a" -C 10 >"$OUT/client" 2>&1
	}
	wait_for 60 rping_works || fail "rping to $a: $(cat "$OUT/client" "$OUT/server")"
	wait $server || fail "rping -s: $(<"$OUT/server")"
done

step "disconnected; and what changed while nobody followed"
"${docker[@]}" network disconnect bridge ff-one || fail "network disconnect"
becomes one "10.61.0.9 fd61::9"
wait_for 60 grep -q "^GIDS 10.61.0.9 fd61::9$" "$OUT/events" || fail "$(<"$OUT/events")"
kill $follower
wait $follower 2>/dev/null
"${docker[@]}" network connect bridge ff-one || fail "network connect"
follow
becomes one "10.61.0.9 fd61::9 $(engines one | xargs -n 1 | grep -v 10.61)"
"$LAB" restart router h0 || fail "the router does not start again"
"${docker[@]}" network disconnect more ff-one || fail "network disconnect"
becomes one "$(engines one)"
stop one peer

step "containers that end while the router is away, with and without a follower: forgotten when it is back"
known() { # NAME
	router_ctl container show "$1" >/dev/null 2>&1
}
forgotten() {
	! known "$1"
}
start ended
start alive
"$LAB" kill router h0
stop ended
"$LAB" restart router h0 || fail "the router does not start again"
known alive || fail "a container that runs is unknown"
wait_for 60 forgotten ended || fail "it is known still: $(<"$OUT/follow")"
kill $follower
wait $follower 2>/dev/null
start ended
"$LAB" kill router h0
stop ended
"$LAB" restart router h0 || fail "the router does not start again"
known ended || fail "who has told the router?"
follow
wait_for 60 forgotten ended || fail "it is known still: $(<"$OUT/follow")"
start next
has next "$(engines next)" || fail "$(ips next) is not $(engines next)"
has alive "$(engines alive)" || fail "who runs has $(ips alive), not $(engines alive)"
stop next alive

step "IPv6 as it starts, macvlan, overlay"
start six --network more --ip 10.61.0.20 --ip6 fd61::20
becomes six "10.61.0.20 fd61::20"
stop six
if network mac -d macvlan --subnet 10.62.0.0/24 -o parent=br-"$("${docker[@]}" network ls -q --filter name=^more$)"; then
	start mac --network mac --ip 10.62.0.7
	has mac 10.62.0.7 || fail "macvlan: $(ips mac)"
	stop mac
else
	echo "   no macvlan here: $(<"$OUT/network")"
fi
if "${docker[@]}" swarm init --advertise-addr 127.0.0.1 >"$OUT/network" 2>&1 &&
	network over -d overlay --attachable --subnet 10.63.0.0/24 &&
	"${docker[@]}" run --rm --label freeflow.test=addresses --network over "$image" true >"$OUT/network" 2>&1; then
	start over --network over --ip 10.63.0.7
	[[ $(ips over) == "10.63.0.7 "* ]] || fail "overlay: $(ips over)" # and one of docker_gwbridge
	stop over
else
	echo "   no overlay here: $(tail -n 1 "$OUT/network")"
fi

step "by label: of the pool, and a given one; no network of its own"
start pool --label freeflow.io/ip=pool
in_pool pool
start given --label freeflow.io/ip=10.64.0.7
"${docker[@]}" network connect more ff-given || fail "network connect"
start host --network host
in_pool host
start none --network none
in_pool none

step "two with the same address: one has it, and the log says so"
start first
start second --network container:ff-first
has first "$(engines first)" || fail "$(ips first)"
in_pool second
wait_for 60 grep -q "container second: .* is in use" "$OUT/follow" || fail "$(<"$OUT/follow")"
has given 10.64.0.7 || fail "a given address was changed: $(ips given)"
stop second host none given pool

step "who may change addresses has those of his start"
start admin --cap-add NET_ADMIN
want=$(engines admin)
has admin "$want" || fail "$(ips admin)"
for c in admin first; do
	nsenter -t "$("${docker[@]}" inspect -f '{{.State.Pid}}' ff-$c)" -n ip addr add 10.66.0.1/32 dev eth0 || fail "ip addr"
	[[ $c == admin ]] || becomes first "$(engines first) 10.66.0.1"
done
has admin "$want" || fail "an address that it gave itself counts: $(ips admin)"
stop admin

step "who shares his network with one that may change addresses"
want=$(ips first)
"${docker[@]}" run -d --label freeflow.test=addresses --name ff-sharer --network container:ff-first --cap-add NET_ADMIN \
	"$image" sleep 1000 >/dev/null || fail "sharer does not start"
nsenter -t "$("${docker[@]}" inspect -f '{{.State.Pid}}' ff-sharer)" -n ip addr add 10.66.0.2/32 dev eth0 || fail "ip addr"
wait_for 60 grep -q "container first: a process with CAP_NET_ADMIN shares its network" "$OUT/follow" || fail "$(<"$OUT/follow")"
has first "$want" || fail "an address that another one gave it counts: $(ips first)"
start third --network container:ff-first
in_pool third
stop third sharer first
exit 0
