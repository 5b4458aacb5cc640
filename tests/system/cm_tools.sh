#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns hosts
# night: docker
# timeout: 360
# cm_tools.sh - Debian's rdmacm-utils between two containers: connections (ucmatose, cmtime,
# rdma_client), datagrams (udaddy), multicast (mckey), XRC (rdma_xclient). Not with sanitizers:
# mckey's stdbuf preloads a library before theirs.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/cm.sh"
ip=$("$LAB" ip "$A") ip1=$("$LAB" ip "$B")

# sends N COMMAND...: the router counts N sends of each container meanwhile, and N receives.
sends() {
	local n=$1 c before after
	shift
	for c in "$A" "$B"; do
		read -r "${c}_s" "${c}_r" <<<"$(counter "$c" send_ops recv_ops)"
	done
	"$@"
	for c in "$A" "$B"; do
		before="$((${c}_s + n)) $((${c}_r + n))"
		after=$(counter "$c" send_ops recv_ops)
		[[ $after == "$before" ]] ||
			fail "$c has $after sends and receives, not $before ($n more)"
	done
}

complete() {
	said client 1 "^data transfers complete"
	said client 1 "^return status 0"
	said server 1 "^return status 0"
}

sends 10 cm_pair ucmatose "ucmatose -s $ip"
complete
sends 600 cm_pair "ucmatose -c 30 -C 20 -S 4096" "ucmatose -c 30 -C 20 -S 4096 -s $ip"
complete
cm_pair "ucmatose -c 3 -m" "ucmatose -c 3 -m -s $ip" # migrates its ids
complete
cm_pair "ucmatose -P ib -p 5000" "ucmatose -P ib -p 5000 -s $ip"
complete

sends 10 cm_pair udaddy "udaddy -s $ip"
complete
sends 500 cm_pair "udaddy -c 20 -C 25 -S 1024" "udaddy -c 20 -C 25 -S 1024 -s $ip"
complete

for type in "" "-c x"; do
	cm_pair "rdma_xserver $type" "rdma_xclient $type -s $ip"
	said client 1 "end 0"
	said server 1 "end 0"
done
cm_pair rdma_server "rdma_client -s $ip"
said client 1 "end 0"
said server 1 "end 0"

step "mckey: two receivers"
before=$(counter "$B" send_ops)
jobs=()
for c in "$A" "$C"; do
	"$LAB" exec "$c" -- stdbuf -oL mckey -m 239.1.2.3 -b "$("$LAB" ip "$c")" >"$OUT/$c" 2>&1 &
	jobs+=($!)
done
ready() { # CONTAINER: its program has joined the group and waits for data
	grep -qs "receiving data transfers" "$OUT/$1"
}
for c in "$A" "$C"; do
	wait_for 60 ready "$c" || fail "mckey in $c: $(cat "$OUT/$c")"
done
# Datagrams may be lost, and then a receiver waits for the next sender's.
served() {
	timeout 90 "$LAB" exec "$B" -- mckey -m 239.1.2.3 -s -b "$ip1" >"$OUT/client" 2>&1 ||
		fail "the sender ended with $?: $(cat "$OUT/client")"
	wait_for 2 ended "${jobs[0]}" && wait_for 2 ended "${jobs[1]}"
}
wait_for 60 served || fail "the receivers wait: $(cat "$OUT/$A" "$OUT/$C")"
for job in "${jobs[@]}"; do
	wait "$job" || fail "a receiver ended with $?: $(cat "$OUT/$A" "$OUT/$C")"
done
for c in "$A" "$C"; do
	[[ $(grep -c '^data transfers complete\|^return status 0' "$OUT/$c") == 2 ]] ||
		fail "mckey in $c: $(cat "$OUT/$c")"
done
(($(counter "$B" send_ops) - before >= 10)) || fail "not 10 messages"

step "cmtime: 200 connections"
cm_server "$A" 1 cmtime
timeout 180 "$LAB" exec "$B" -- cmtime -s "$ip" -c 200 >"$OUT/client" 2>&1 ||
	fail "cmtime ended with $?: $(cat "$OUT/client")"
! complaint "$OUT/client" || fail "cmtime complains"
for what in "create id" "resolve addr" "resolve route" "create qp" connect disconnect destroy; do
	# total ms, max ms, min us, us per connection
	awk -F : -v what="$what" '
		$1 ~ "^" what " *$" { split($2, v, " "); good = v[1] != "" && v[4] != "" }
		END { exit !good }' "$OUT/client" || fail "cmtime, $what: $(cat "$OUT/client")"
done
kill "$SERVER_JOB"
wait "$SERVER_JOB"
for c in "$A" "$B"; do
	wait_for 30 cm_none "$c" || fail "ids are left in $c"
done
exit 0
