#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 360
# backlog.sh - one container asks a listener of rdma_cm for very many connections at once, without end. Another one's
# requests are answered all the same: each peer has its own share of the backlog. A request that finds no place there
# comes again later and later, and then finds none, either.
. "$(dirname "$0")/../rig/shell/lab.sh"

own_lab --containers 3
program=$BUILD/tests/hostile/backlog
BACKLOG=4 # the listener's

ask() { # WHEN N
	before=$(inside h0c2 "$program" ask h0c1 "$2")
	[[ $before == +([0-9]) ]] || fail "$1: a request was not answered: $before"
	echo "$1: $2 requests were answered"
}

mkfifo "$OUT/go" "$OUT/take"
inside h0c1 "$program" hold <"$OUT/take" >"$OUT/listen.log" 2>&1 &
exec 6>"$OUT/take"
wait_for 60 grep -qs listens "$OUT/listen.log" || fail "the listener does not begin"
inside h0c0 "$program" flood h0c1 <"$OUT/go" >"$OUT/flood.log" 2>&1 &
attack=$!
exec 5>"$OUT/go"
wait_for 120 grep -qs attacks "$OUT/flood.log" || {
	cat "$OUT/flood.log"
	fail "the attack does not begin"
}

step "a full backlog has a place for another"
inside h0c2 "$program" ask h0c1 1 >"$OUT/asked" 2>&1 &
asked=$!
placed() { # the listener's own id, and one for each request
	((ids = $(counter h0c1 cm_ids), ids >= 1 + BACKLOG + 1))
}
wait_for 60 placed || fail "the request finds no place: the listener has $ids ids"
echo >&6 # the listener begins to take requests
wait "$asked" || fail "the request was not answered: $(<"$OUT/asked")"
before=$(<"$OUT/asked")
echo "the listener has $ids ids, and took $before requests before that one"
((before <= BACKLOG)) || fail "the listener took $before requests before that one"

step "and goes on to"
ask "beside it" 20
running "$attack" || {
	cat "$OUT/flood.log"
	fail "the attack has ended"
}
exec 5>&-
wait "$attack"
ask "behind it" 20
exit 0
