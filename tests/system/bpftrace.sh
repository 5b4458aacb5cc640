#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: docker
# timeout: 300
# bpftrace.sh - the static tracepoints, by the scripts of deploy/bpftrace/: each hop of requests is
# seen, and who waits for receives.
. "$(dirname "$0")/../rig/shell/lab.sh"

command -v bpftrace >/dev/null || skip "bpftrace is not installed"
bpftrace -e 'BEGIN { exit(); }' >"$OUT/probe" 2>&1 || skip "bpftrace does not work here: $(tail -n 1 "$OUT/probe")"

# script NAME: as it is, but for the paths of what is traced.
script() {
	sed "s|/usr/lib/freeflow/|$BUILD/lib/|; s|/usr/sbin/ffr|$BUILD/bin/ffr|" \
		"$TREE/deploy/bpftrace/$1" >"$OUT/$1"
}

# traced NAME SECONDS: what it says of that time.
traced() {
	script "$1"
	# by itself: a signal that comes while it attaches is lost
	echo "interval:s:$2 { exit(); }" >>"$OUT/$1"
	timeout -k 5 40 bpftrace "$OUT/$1" >"$OUT/out" 2>"$OUT/err"
	grep -q '^Attaching' "$OUT/out" || fail "$1: $(<"$OUT/err")"
}

step "every tracepoint that ffr(8) tells of is there, and no other"
readelf -n "$BUILD/bin/ffr" "$BUILD/lib/libibverbs.so.1" |
	awk '/Provider: freeflow/ { getline; print $2 }' | sort -u >"$OUT/there"
sed -n '/^# TRACEPOINTS/,/^# EXIT/s/^\*\([a-z_]*\)\*(.*/\1/p' "$TREE/ffr/ffr.8.scd" | sort >"$OUT/told"
diff "$OUT/told" "$OUT/there" || fail "told and there"

step "hops"
traffic write_ops ib_write_lat -F -s 8 -D 40
traced hops.bt 5
for hop in post_to_fetch copy fetch_to_completion completion_to_poll post_to_poll; do
	grep -q "^@$hop:" "$OUT/out" || fail "no $hop: $(<"$OUT/out") $(<"$OUT/err")"
done
kill $CLIENT_JOB "$SERVER_JOB"
wait $CLIENT_JOB "$SERVER_JOB" 2>/dev/null

step "who waits for receives"
inside "$A" "$BUILD/tests/system/bpftrace" >"$OUT/waits" 2>&1 &
waits=$!
rnr() {
	(($(counter "$A" rnr) > 0))
}
wait_for 60 rnr || fail "no RNR NAK: $(<"$OUT/waits")"
traced rnr.bt 4
read -r qp peer <"$OUT/waits"
grep -q "^@rnr\[$qp, $peer\]: [1-9]" "$OUT/out" || fail "not $qp, $peer: $(<"$OUT/out")"
kill $waits
exit 0
