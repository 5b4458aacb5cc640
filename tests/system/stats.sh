#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# stats.sh - ffctl stats and ffctl top: counters, statuses and times of containers, QPs and tenants,
# while programs run and afterwards.
# test: netns
# all: hosts docker system-san
. "$(dirname "$0")/../rig/shell/lab.sh"

ctl() { # CONTAINER ARGS...: ffctl on its host
	local c=$1
	shift
	"$LAB" ffctl "$(<"$FF_LAB/$c/host")" -- "$@"
}

# value EXPRESSION: of the answer `a` on standard input, in Python.
value() {
	python3 -c 'import json, sys; a = json.load(sys.stdin); print(eval(f"({sys.argv[1]})"))' "$1"
}

before=$(ctl "$A" --json stats "$A" --latency | value 'a[0]["latency"]["count"]')
pair "$B" "$A" ib_write_bw -F -n 1000 -s 4096
step "times of what was written"
ctl "$A" --json stats "$A" --latency >"$OUT/stats"
count=$(value 'a[0]["latency"]["count"]' <"$OUT/stats")
((count - before >= 1000)) || fail "$((count - before)) requests have a time"
[[ $(value 'all(a[0]["latency"][k] <= a[0]["latency"][l] for k, l in (("p50_ns", "p90_ns"),
	("p90_ns", "p99_ns"), ("p99_ns", "p999_ns"), ("p999_ns", "max_ns")))' <"$OUT/stats") == True ]] ||
	fail "percentiles: $(<"$OUT/stats")"
[[ $(value 'sum(n for _, n in a[0]["latency"]["buckets"]) == a[0]["latency"]["count"]' \
	<"$OUT/stats") == True ]] || fail "buckets"
ctl "$A" stats "$A" --latency >"$OUT/table"
grep -qE "^$A +$count +[0-9.]+[num]?s" "$OUT/table" || fail "table: $(<"$OUT/table")"

step "counters that are not 0"
ctl "$A" stats "$A" --nonzero >"$OUT/table" || fail "stats --nonzero"
grep -qE '^  tx_bytes +[1-9]' "$OUT/table" || fail "$(<"$OUT/table")"
! grep -E '^  [a-z_]+ +0 ' "$OUT/table" || fail "zeros"
ctl "$A" stats "$A" | grep >/dev/null -E '^  cm_ids +0 ' || fail "no zeros without --nonzero"

step "numbers with units"
ctl "$A" stats "$A" --human >"$OUT/table" || fail "stats --human"
grep -qE '^  tx_bytes +[0-9]+(\.[0-9])?(B|[kMGT]B)  ' "$OUT/table" || fail "$(<"$OUT/table")"
grep -qE '^  cpu_ns +[0-9]+(\.[0-9])?[num]?s  ' "$OUT/table" || fail "$(<"$OUT/table")"
ctl "$A" stats --human --qps >/dev/null 2>"$OUT/error" && fail "stats --human --qps"
grep -q 'are for counters' "$OUT/error" || fail "$(<"$OUT/error")"

step "again and again, with rates"
"$BUILD/bin/ffctl" --admin "$FF_LAB/$(<"$FF_LAB/$A/host")/admin.sock" stats "$A" --watch 0.3 >"$OUT/table" &
job=$!
readings() {
	(($(grep -c "^$A$" "$OUT/table") >= $1))
}
wait_for 30 readings 3 || fail "stats --watch: $(<"$OUT/table")"
kill $job
wait $job 2>/dev/null
grep -qE '^  write_ops +[0-9]+ +0/s  RDMA WRITE' "$OUT/table" || fail "$(<"$OUT/table")"
grep -qE '^  tx_bytes +[0-9]+ +0bit/s  bytes sent' "$OUT/table" || fail "$(<"$OUT/table")"
grep -qE '^  qps +[0-9]+ {16}queue pairs' "$OUT/table" || fail "$(<"$OUT/table")"
ctl "$A" stats --watch soon 2>"$OUT/error" && fail "stats --watch soon"
grep -q '"soon" is not 0.1..3600 seconds' "$OUT/error" || fail "$(<"$OUT/error")"

step "completions by status"
[[ $(ctl "$A" --json stats "$A" | value 'a[0]["completions"]["success"] > 0 and
	len(a[0]["completions"]) == 24') == True ]] || fail "completions"

step "queue pairs of a program that runs"
"$LAB" exec "$A" -- ibv_rc_pingpong -g 0 -p 18600 -n 1000 >"$OUT/waits" 2>&1 &
job=$!
has_qp() {
	[[ $(ctl "$A" --json stats "$A" --qps | value 'len(a[0]["qp_list"])') == 1 ]]
}
wait_for 60 has_qp || fail "no QP is shown"
posted() { # it has posted its receives and waits for its peer
	[[ $(ctl "$A" --json stats "$A" --qps | value 'a[0]["qp_list"][0]["rq_depth"]') == 500 ]]
}
wait_for 60 posted || fail "$(ctl "$A" --json stats "$A" --qps)"
ctl "$A" stats "$A" --qps >"$OUT/table"
grep -qE "^$A +[0-9]+ +0x[0-9a-f]{6} +RC +INIT +- +0/500/0 " "$OUT/table" || fail "$(<"$OUT/table")"
ctl "$A" stats --qps --latency >"$OUT/table"
grep -qE "^$A +[0-9]+ +0x[0-9a-f]{6} +RC +INIT +- +0 +- " "$OUT/table" || fail "$(<"$OUT/table")"

step "a tenant's sums"
ctl "$A" --json stats --tenant default >"$OUT/stats"
[[ $(value 'len(a) == 1 and a[0]["tenant"] == "default" and a[0]["containers"] >= 1 and
	a[0]["counters"]["write_ops"] >= 1000' <"$OUT/stats") == True ]] || fail "$(<"$OUT/stats")"
ctl "$A" stats --tenant nobody 2>"$OUT/error" && fail "a tenant that is not there"
grep -q '^ffctl: no container of tenant "nobody" on this host$' "$OUT/error" || fail "$(<"$OUT/error")"

step "top"
ctl "$A" top --once --interval 0.2 >"$OUT/table" || fail "top --once"
grep -q "^CONTAINER .* TXbit/s RXbit/s " "$OUT/table" || fail "$(<"$OUT/table")"
grep -qE "^$A +default +1 " "$OUT/table" || fail "$(<"$OUT/table")"
[[ -z $(awk 'length > 80' "$OUT/table") ]] || fail "wider than 80 columns"
[[ $(ctl "$A" --json top --interval 0.2 | value 'len([c for c in a if c["name"] == "'"$A"'" and c["tenant"] == "default"
	and c["qps"] == 1 and c["ops"] == 0 and c["tx_bytes"] == 0 and c["p99_ns"] == 0])') == 1 ]] || fail "top --json"
ctl "$A" top >"$OUT/none" 2>"$OUT/error" </dev/null && fail "top without a terminal"
[[ $(<"$OUT/error") == "ffctl: top: standard output is no terminal; --once prints one table" ]] ||
	fail "$(<"$OUT/error")"
python3 "$TREE/tests/rig/tools/screen.py" clq CONTAINER "$A" "c container" "q quit" -- \
	"$BUILD/bin/ffctl" --admin "$FF_LAB/$(<"$FF_LAB/$A/host")/admin.sock" top --interval 0.2 ||
	fail "top on a terminal"
kill $job
exit 0
