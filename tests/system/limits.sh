#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# engines: netns
# timeout: 180
# limits.sh - limits as an operator sets and sees them, with ffctl; the manual page knows all of them.
. "$(dirname "$0")/../lib/lab.sh"

own_lab --containers 2
options=

# has TEXT REGEX: a line of the text.
has() {
	grep -Eqs -- "$2" <<<"$1" || fail "no '$2' in: $1"
}

step "what is set is shown, and in force while the container is in use"
"$LAB" exec h0c0 -- ibv_asyncwatch >"$OUT/watch" 2>&1 &
watch=$!
until_true 10 grep -qs 'async event FD' "$OUT/watch" || fail "ibv_asyncwatch"
has "$(router_ctl container list)" '^NAME +TENANT +ADDRESSES +MODE +LID +SESSIONS$'
router_ctl container set h0c0 --rate 1.5Gbit --serve-rate 800kbit --max-qp 64 --max-pinned 1GB ||
	fail "container set"
router_ctl container set h0c1 --latency yes --weight 500 --max-wr 2M || fail "container set"
running $watch || fail "the program has ended"
has "$(router_ctl container list)" '^NAME .* TX RATE +RX RATE +SERVE RATE$'
has "$(router_ctl container list)" '^h0c0 .* 1.5Gbit +1.5Gbit +800kbit$'
has "$(router_ctl container list --all)" '^h0c1 .* - +- +-$'
show=$(router_ctl container show h0c0)
has "$show" '^tx-rate +1.5Gbit '
has "$show" '^max-qp +64 '
has "$show" '^max-pinned +1GB '
has "$(router_ctl container show h0c1)" '^latency +yes '
has "$(router_ctl container show h0c1)" '^max-wr +2M '
json=$(router_ctl --json container show h0c0)
[[ $(python3 -c 'import json,sys; print(json.load(sys.stdin)["limits"])' <<<"$json") == \
	"{'tx_rate': 187500000, 'rx_rate': 187500000, 'serve_rate': 100000, 'max_qp': 64, 'max_pinned': 1073741824}" ]] ||
	fail "$json"

step "none takes one away, what is not named stays"
router_ctl container set h0c0 --rate none --max-pinned none --tx-rate 10Gbit || fail "container set"
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

step "a new container"
router_ctl container add extra --tenant blue --max-session 3 >/dev/null || fail "container add"
has "$(router_ctl container show extra)" '^max-session +3 '
router_ctl container rm extra || fail "container rm"

step "the manual page tells of each option that --help does"
for option in $("$BUILD/bin/ffctl" --help | sed -n '/^LIMIT/,$s/^ *\(--[a-z-]*\) .*/\1/p'); do
	grep -qF -- "*$option*" "$TREE/ffr/ffctl.8.scd" || fail "ffctl.8.scd does not tell of $option"
	options+=" $option"
done
[[ $options == *--rate*--max-calls* ]] || fail "$options"
