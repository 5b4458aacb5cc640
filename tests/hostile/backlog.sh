#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 360
# backlog.sh - one container asks a listener of rdma_cm for very many connections at once, without end. Another one's
# requests are answered all the same: each peer has its own share of the backlog.
. "$(dirname "$0")/../rig/shell/lab.sh"

ATTEMPTS=5 # the machine has other work: the best of so many counts

own_lab --containers 3
program=$BUILD/tests/hostile/backlog

# The listener takes 5 ms for a request, and has 4 of the attacker's before one of the victim's. A request that finds no
# place comes again later and later: after seconds, soon.
MAX_MS=500

ask() { # WHEN
	read -r half longest <<<"$(inside h0c2 "$program" ask h0c1 20)"
	[[ $longest == +([0-9]) ]] || fail "$1: a request was not answered: $half $longest"
	echo "$1: half of the requests were answered within $half ms, the longest took $longest ms"
}

inside h0c1 "$program" listen >"$OUT/listen.log" 2>&1 &
wait_for 60 grep -qs listens "$OUT/listen.log" || fail "the listener does not begin"
ask "alone"
mkfifo "$OUT/go"
inside h0c0 "$program" flood h0c1 <"$OUT/go" >"$OUT/flood.log" 2>&1 &
attack=$!
exec 5>"$OUT/go"
wait_for 120 grep -qs attacks "$OUT/flood.log" || {
	cat "$OUT/flood.log"
	fail "the attack does not begin"
}
for ((i = 0; i < ATTEMPTS; i++)); do
	ask "beside it"
	((half > MAX_MS)) || break
done
running "$attack" || {
	cat "$OUT/flood.log"
	fail "the attack has ended"
}
((half <= MAX_MS)) || fail "half of the requests wait for more than $half ms"
exec 5>&-
wait "$attack"
ask "behind it"
exit 0
