#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: system-san
# timeout: 360
# limits.sh - limits as an operator sets and sees them, with ffctl, and quotas as a program meets them.
. "$(dirname "$0")/../rig/shell/lab.sh"

own_lab --containers 2

# has TEXT REGEX: a line of the text.
has() {
	grep -Eqs -- "$2" <<<"$1" || fail "no '$2' in: $1"
}

step "what is set is shown, and in force while the container is in use"
"$LAB" exec h0c0 -- ibv_asyncwatch >"$OUT/watch" 2>&1 &
watch=$!
wait_for 60 grep -qs 'async event FD' "$OUT/watch" || fail "ibv_asyncwatch"
has "$(router_ctl container list)" '^NAME +TENANT +ADDRESSES +MODE +LID +SESSIONS$'
set=$(router_ctl container set h0c0 --rate 1.5Gbit --serve-rate 800kbit --max-qp 64 --max-pinned 1GB) ||
	fail "container set"
has "$set" '^h0c0 [0-9a-f.,:]+ /'
for line in 'tx-rate: none -> 1.5Gbit' 'rx-rate: none -> 1.5Gbit' 'serve-rate: none -> 800kbit' 'max-qp: none -> 64' \
	'max-pinned: none -> 1GB'; do
	has "$set" "^$line$"
done
[[ $(wc -l <<<"$set") == 6 ]] || fail "$set"
router_ctl container set h0c1 --latency yes --weight 500 --max-wr 2M || fail "container set"
running $watch || fail "the program has ended"
has "$(router_ctl container list)" '^NAME .* TX RATE +RX RATE +SERVE RATE$'
has "$(router_ctl container list)" '^h0c0 .* 1.5Gbit +1.5Gbit +800kbit$'
has "$(router_ctl container list --all)" '^h0c1 .* - +- +-$'
show=$(router_ctl container show h0c0)
has "$show" '^tx-rate +1.5Gbit '
has "$show" '^max-qp +64 '
has "$show" '^LIMIT +VALUE +IN USE +WHAT$'
has "$show" '^tx-rate +1.5Gbit +- +sent$'
has "$show" '^max-pinned +1GB '
has "$(router_ctl container show h0c1)" '^latency +yes '
has "$(router_ctl container show h0c1)" '^max-wr +2M '
json=$(router_ctl --json container show h0c0)
[[ $(python3 -c 'import json,sys; print(json.load(sys.stdin)["limits"])' <<<"$json") == \
	"{'tx_rate': 187500000, 'rx_rate': 187500000, 'serve_rate': 100000, 'max_qp': 64, 'max_pinned': 1073741824}" ]] ||
	fail "$json"

step "none takes one away, what is not named stays"
set=$(router_ctl container set h0c0 --rate none --max-pinned none --tx-rate 10Gbit) || fail "container set"
has "$set" '^tx-rate: 1.5Gbit -> 10Gbit$'
has "$set" '^rx-rate: 1.5Gbit -> none$'
has "$(router_ctl container set h0c0 --tx-rate 10Gbit)" '^no change: '
show=$(router_ctl container show h0c0)
has "$show" '^tx-rate +10Gbit '
has "$show" '^max-qp +64 '
! grep -q '^rx-rate\|^max-pinned +1GB' <<<"$show" || fail "$show"
! router_ctl container set h0c0 --mode spin --max-qp 1 2>"$OUT/err" || fail "in use, and changed"
grep -q 'in use' "$OUT/err" || fail "$(cat "$OUT/err")"
kill $watch
wait $watch

step "tenants"
router_ctl tenant set blue --ops 500k --burst 64kB || fail "tenant set"
list=$(router_ctl tenant list)
has "$list" '^blue +tx-ops +500k '
has "$list" '^blue +burst +64kB '
[[ $(router_ctl --json tenant list | python3 -c 'import json,sys; print(json.load(sys.stdin))') == \
	"[{'tenant': 'blue', 'limits': {'tx_ops': 500000, 'rx_ops': 500000, 'burst': 65536}}]" ]] ||
	fail "$(router_ctl --json tenant list)"
router_ctl tenant set blue --ops none --burst none || fail "tenant set"
[[ $(router_ctl tenant list) != *blue* ]] || fail "$(router_ctl tenant list)"

limits=$BUILD/tests/system/limits

# makes CONTAINER KIND MAX WORDS: `limits KIND MAX` in that container says these words.
makes() {
	local got
	got=$(inside "$1" "$limits" "$2" "$3" </dev/null) || fail "limits $2"
	[[ $got == "$4" ]] || fail "$2: $got, not $4"
}

step "quotas: a real program is refused as by a small device, and the log tells of it"
router_ctl container set h0c0 --max-qp 5 --max-cq 3 --max-srq 2 --max-mr 4 --max-session 3 ||
	fail "container set"
makes h0c0 qp 100 '5 ENOMEM'
makes h0c0 cq 100 '2 ENOMEM' # it has one beside
makes h0c0 srq 100 '2 ENOMEM'
makes h0c0 mr 100 '4 ENOMEM'
makes h0c0 session 100 '2 ENOMEM'
makes h0c1 qp 100 '100 max'
grep -q 'h0c0: max_qp of the container is used up: 5 of 5' "$FF_LAB/h0/ffr.log" ||
	fail "$(tail "$FF_LAB/h0/ffr.log")"

step "what is in use is shown, and returned"
mkfifo "$OUT/hold"
"$LAB" exec h0c0 -- "$limits" qp 4 <"$OUT/hold" >"$OUT/qp" &
job=$!
exec 9>"$OUT/hold"
wait_for 60 grep -qs max "$OUT/qp" || fail "limits qp 4"
show=$(router_ctl container show h0c0)
has "$show" '^max-qp +5 +4 '
has "$show" '^max-cq +3 +1 '
has "$show" '^max-session +3 +1 '
exec 9>&-
wait $job || fail "limits"
nothing_used() {
	python3 -c 'import json,sys; sys.exit(any(json.load(sys.stdin)["usage"].values()))' \
		< <(router_ctl --json container show h0c0)
}
wait_for 60 nothing_used || fail "$(router_ctl container show h0c0)"

step "a tenant's quota is for all its containers"
router_ctl tenant set default --max-qp 6 || fail "tenant set"
mkfifo "$OUT/hold2"
"$LAB" exec h0c0 -- "$limits" qp 4 <"$OUT/hold2" >"$OUT/qp" &
job=$!
exec 9>"$OUT/hold2"
wait_for 60 grep -qs max "$OUT/qp" || fail "limits qp 4"
makes h0c1 qp 100 '2 ENOMEM'
exec 9>&-
wait $job || fail "limits"
router_ctl tenant set default --max-qp none || fail "tenant set"
makes h0c1 qp 100 '100 max'

step "calls above their rate wait, and succeed; those of others do not"
router_ctl container set h0c0 --max-calls 1k || fail "container set"
inside h0c0 "$limits" calls 1000000 >"$OUT/calls" & # which lasts half an hour
job=$!
limited() {
	[[ $(<"$FF_LAB/h0/ffr.log") == *'h0c0: it makes more control calls than max_calls allows: they wait'* ]]
}
wait_for 60 limited || fail "$(tail "$FF_LAB/h0/ffr.log")"
inside h0c1 "$limits" calls 100 || fail "limits calls"
running $job || fail "the calls above the rate do not wait: $(<"$OUT/calls")"
end_program h0c0 limits
wait $job
inside h0c0 "$limits" calls 600 || fail "limits calls" # which are 1,200, and succeed
router_ctl container set h0c0 --max-calls none || fail "container set"

step "the router's CPU time: what is above is not served, with calls and with data"
router_ctl container set h0c1 --max-cpu 0.02 || fail "container set"
has "$(router_ctl container show h0c1)" '^max-cpu +20m '
cpu=$(counter h0c1 cpu_ns) from=$(date +%s%N)
inside h0c1 "$limits" calls 1000 >/dev/null || fail "limits calls"
[[ $(<"$FF_LAB/h0/ffr.log") == *'h0c1: it makes more control calls than max_cpu allows: they wait'* ]] ||
	fail "$(tail "$FF_LAB/h0/ffr.log")"
pair h0c1 h0c1 ib_write_bw -F -s 65536 -n 5000
cpu=$(($(counter h0c1 cpu_ns) - cpu)) took=$(($(date +%s%N) - from))
(($(counter h0c1 held_ns) > 100000000)) || fail "it was held for $(counter h0c1 held_ns) of $took ns"
((cpu < took / 40)) || fail "$cpu ns of CPU time in $took ns"
inside h0c0 "$limits" calls 100 || fail "limits calls"
router_ctl container set h0c1 --max-cpu none || fail "container set"

step "a new container"
router_ctl container add extra --tenant blue --max-session 3 >/dev/null || fail "container add"
has "$(router_ctl container show extra)" '^max-session +3 '
router_ctl container rm extra || fail "container rm"
