#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: docker hosts system-san
# timeout: 300
# ucx.sh - Debian's UCX over the verbs transports only, no shared memory and no TCP: what it makes of
# the device, and its own performance tests between two containers, with a look at whether the bytes
# went through the router. UCX sets its RC connections up over UD.
. "$(dirname "$0")/../rig/shell/lab.sh"

RC=rc_verbs,ud_verbs,self
UD=ud_verbs,self

step "ucx_info"
inside "$A" ucx_info -d >"$OUT/info" || fail "ucx_info ended with $?"
for t in rc_verbs ud_verbs; do
	grep -A1 "Transport: $t\$" "$OUT/info" | grep >/dev/null "Device: ff0:1\$" || {
		cat "$OUT/info"
		fail "ucx_info shows no $t on ff0"
	}
done

bytes() {
	echo $(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes)))
}

# ucx TLS TEST SIZE ITERS OPTIONS...: the report is of so many iterations, whose bytes the router moved.
ucx() {
	local tls=$1 test=$2 size=$3 iters=$4 start
	shift 4
	start=$(bytes)
	pair "$A" "$B" env "UCX_TLS=$tls" UCX_NET_DEVICES=ff0:1 UCX_LOG_LEVEL=error \
		ucx_perftest -t "$test" -s "$size" -n "$iters" -w 10 -f "$@"
	awk -v iters="$iters" '$1 == iters && NF == 8 && $4 > 0 && $8 > 0 { ok = 1 } END { exit !ok }' \
		"$OUT/client" || {
		cat "$OUT/client"
		fail "no report of $iters iterations"
	}
	[[ $test == @(add_mr|fadd|cswap) ]] || (($(bytes) - start >= size * iters)) ||
		fail "the router moved $(($(bytes) - start)) bytes, not $((size * iters))"
}

# Messages of the sizes that UCX sends inline, copied, without a copy, and by a rendezvous.
for tls in "$RC" "$UD"; do
	for size in 8 1000 8000 100000; do
		ucx "$tls" tag_lat "$size" 200
	done
	ucx "$tls" tag_bw 1048576 50
	ucx "$tls" stream_bw 65536 100
	ucx "$tls" ucp_am_bw 65536 100
done
for size in 8 4000 1000000; do
	ucx "$RC" ucp_put_bw "$size" 50
	ucx "$RC" ucp_get "$size" 50
done
# UCP emulates atomics with messages unless a device has them all; UCT takes the device's.
before=$(counter "$B" atomic_ops)
for op in add_mr fadd cswap; do
	ucx "$RC" "$op" 8 200 -d ff0:1 -x rc_verbs
done
after=$(counter "$B" atomic_ops)
((after - before >= 600)) || fail "the device carried out $((after - before)) atomics of 600"
exit 0
