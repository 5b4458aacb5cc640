#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns hosts
# night: docker system-san
# timeout: 600
# rs_programs.sh - Debian's programs that use rsockets, between two containers, and programs that use
# sockets, with Debian's librspreload in front of them. What they move went through the router.
. "$(dirname "$0")/../rig/shell/lab.sh"

IP=$("$LAB" ip "$A")
PRELOAD=$(inside "$A" sh -c 'ls /usr/lib/*/rsocket/librspreload.so') || skip "no librspreload"
((!SANITIZED)) || PRELOAD="$(inside "$A" cat /etc/ld.so.preload 2>/dev/null) $PRELOAD" # ASan wants to be the first

BIND=()
SERVES_ON= # the server does not end by itself

moved() {
	local tx rx
	read -r tx rx < <(counter "$A" tx_bytes rx_bytes)
	echo $((tx + rx))
}

# moves BYTES CMD...: CMD ends with 0, and the router has moved at least so many bytes meanwhile.
moves() {
	local bytes=$1 before now
	shift
	before=$(moved)
	"$@" || fail "$*: $(cat "$OUT/server" "$OUT/client" 2>/dev/null)"
	now=$(moved)
	((now - before >= bytes)) || fail "$*: the router moved $((now - before)) bytes, not $bytes"
}

# rs_pair OPTIONS -- CMD...: CMD in $A, then CMD -s ADDRESS in $B until it finds the server.
rs_pair() {
	local job status tries=50
	((++PORT))
	"$LAB" exec "$A" -- timeout 180 "$@" -p "$PORT" "${BIND[@]}" >"$OUT/server" 2>&1 </dev/null &
	job=$!
	until inside "$B" timeout 180 "$@" -p "$PORT" -s "$IP" >"$OUT/client" 2>&1 </dev/null; do
		status=$?
		# only a server that does not listen yet is asked again (without blocking, rpoll() says POLLERR)
		if ! ((--tries)) || ! running "$job" || ! grep -Eq 'refused|rpoll:' "$OUT/client"; then
			kill "$job"
			return "$status"
		fi
		sleep 0.1
	done
	if [[ $SERVES_ON ]]; then
		end_program "$A" udpong
		wait "$job"
	else
		wait "$job" || return 1
	fi
	# name, size, and a rate above 0
	awk '$1 == "custom" && $NF > 0 { found = 1 } END { exit !found }' "$OUT/client"
}

for options in '-T b' '-T n' '-T a' '-T r' '-T b -i 1000' '-T b -B 4096' '-T b -k 30'; do
	step "rstream $options -T v"
	# shellcheck disable=SC2086
	moves 6400000 rs_pair rstream $options -T v -S 64000 -C 50
done
sizes=(16 63 64 65 4095 4096 100000 1048576 4194304)
((SANITIZED)) || sizes+=(1) # rstream sends 16 bytes of a buffer of that size, which ASan tells
for size in "${sizes[@]}"; do
	step "rstream -S $size"
	moves $((size * 40)) rs_pair rstream -T b -T v -S "$size" -C 5 -I 4
done

for size in 64 4096 300000; do
	step "riostream -S $size"
	moves $((size * 8)) rs_pair riostream -T b -T v -S "$size" -C 2 -I 2
done

BIND=(-b "$IP")
SERVES_ON=1
for options in '-S 64 -C 100' '-S 1024 -C 100 -T e' '-S 256 -C 100 -T b' '-S 256 -C 100 -T a -T e'; do
	step "udpong $options"
	# shellcheck disable=SC2086
	moves 1000 rs_pair udpong $options
done
BIND=()
SERVES_ON=

copied() { # its status says nothing
	inside "$B" timeout 90 rcopy "$OUT/source" "$IP:$OUT/target" -p "$PORT" >"$OUT/client" 2>&1
	cmp -s "$OUT/source" "$OUT/target"
}

copy() {
	local job tries=50
	"$LAB" exec "$A" -- timeout 180 rcopy -p "$PORT" >"$OUT/server" 2>&1 </dev/null &
	job=$!
	until copied; do
		((--tries)) && running "$job" || return 1
		sleep 0.1
	done
	end_program "$A" rcopy
	wait "$job"
	true
}
if [[ $ENGINE == netns ]]; then # its containers share the machine's files
	step "rcopy"
	((++PORT))
	head -c 20000001 /dev/urandom >"$OUT/source"
	moves 20000000 copy
fi

preloaded() { # CONTAINER CMD...
	local c=$1
	shift
	inside "$c" timeout 180 env LD_PRELOAD="$PRELOAD" "$@"
}

sockets() { # OPTIONS...
	local job tries=50
	((++PORT))
	preloaded "$A" iperf3 -s -1 -B "$IP" -p "$PORT" >"$OUT/server" 2>&1 </dev/null &
	job=$!
	until preloaded "$B" iperf3 -c "$IP" -p "$PORT" -n 50M "$@" >"$OUT/client" 2>&1; do
		((--tries)) && running "$job" || return 1
		sleep 0.1
	done
	wait "$job" && grep -q 'iperf Done' "$OUT/client"
}
step "iperf3 over librspreload"
moves 50000000 sockets
step "iperf3 -R -P 3 over librspreload"
moves 50000000 sockets -R -P 3

exit 0
