#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# night: docker system-san
# metrics.sh - the router's counters as Prometheus reads them: the format, the numbers, and that the
# dashboard and the alerts ask for nothing that is not there.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"

SOCKET=$FF_LAB/$(<"$FF_LAB/$A/host")/metrics.sock

# sample NAME LABELS: its value.
sample() {
	awk -v s="freeflow_$1{$2}" '$1 == s { print $2 }' "$OUT/samples"
}

pair "$B" "$A" ib_write_bw -F -n 1000 -s 4096
pair "$B" "$A" ib_send_lat -F -n 200 -s 8
scrape() {
	python3 "$TREE/tests/rig/tools/prom.py" "$SOCKET" "$TREE/deploy/grafana/freeflow.json" \
		"$TREE/deploy/prometheus/freeflow.rules.yml" >"$OUT/samples" || fail "the text: $(<"$OUT/samples")"
}
scrape

step "they are ffctl's numbers"
me="container=\"$A\",tenant=\"default\""
read -r writes sends tx <<<"$(counter "$A" write_ops send_ops tx_bytes)"
((writes >= 1000 && sends >= 200)) || fail "$writes writes, $sends sends"
[[ $(sample container_operations_total "container=\"$A\",operation=\"write\",tenant=\"default\"") == "$writes" ]] ||
	fail "writes"
[[ $(sample container_tx_bytes_total "$me") == "$tx" ]] || fail "tx_bytes: $(sample container_tx_bytes_total "$me")"
count=$(sample container_request_duration_seconds_count "$me")
((count >= writes)) || fail "$count times of $writes writes"
[[ -z $(sample container_tx_bytes_total 'container="nobody",tenant="default"') ]] || fail "nobody"

step "what carries queue pairs, while there are some"
router_ctl container show "$A" >"$OUT/show"
grep -q '^carried ' "$OUT/show" && fail "nothing is connected: $(<"$OUT/show")"
load_server "$A"
load_client "$B" "$A" --seconds 0 -q 3 --ud 1
load_moves 20 || fail "no traffic"
router_ctl container show "$A" >"$OUT/show"
grep -qE '^carried .* [3-9] by host(;|$)' "$OUT/show" || fail "$(<"$OUT/show")"
grep -qE '^carried .* 1 by host, wire(;|$)' "$OUT/show" || fail "$(<"$OUT/show")"
scrape
n=$(sample container_connected_queue_pairs "by=\"host\",container=\"$A\",tenant=\"default\"")
((n >= 3)) || fail "$n queue pairs: $(grep connected "$OUT/samples")"

step "quotas and limits"
router_ctl container set "$A" --max-qp 77 --rate 8Gbit --max-cpu 1.5 || fail "container set"
scrape
((n = $(sample container_quota_used "container=\"$A\",quota=\"max_qp\",tenant=\"default\""))) || fail "no queue pairs"
((n >= 3)) || fail "$n queue pairs are in use"
[[ $(sample container_quota_limit "container=\"$A\",quota=\"max_qp\",tenant=\"default\"") == 77 ]] || fail "max_qp"
[[ $(sample container_limit_bytes_per_second "container=\"$A\",rate=\"rx\",tenant=\"default\"") == 1000000000 ]] ||
	fail "$(grep container_limit "$OUT/samples")"
[[ $(sample container_limit_cpus "$me") == 1.5 ]] || fail "$(grep container_limit "$OUT/samples")"
router_ctl container set "$A" --max-qp none --rate none --max-cpu none || fail "container set"
load_stop 0
load_server_stop 0

step "the orchestrator and other hosts"
grep -q '^freeflow_orchestrator_up{} 1$' "$OUT/samples" || fail "$(grep orchestrator "$OUT/samples")"
grep -q '^freeflow_fenced{} 0$' "$OUT/samples" || fail "$(grep fenced "$OUT/samples")"
if ((HOSTS > 1)); then
	grep -q '^freeflow_host_up{host="h1"} 1$' "$OUT/samples" || fail "$(grep host_ "$OUT/samples")"
fi

step "the socket is root's"
[[ $(stat -c %a "$SOCKET") == 600 ]] || fail "mode $(stat -c %a "$SOCKET")"
exit 0
