#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# night: docker system-san
# metrics.sh - the router's counters as Prometheus reads them: the format, the numbers, and that the
# dashboard asks for nothing that is not there.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"

SOCKET=$FF_LAB/$(<"$FF_LAB/$A/host")/metrics.sock

# sample NAME LABELS: its value.
sample() {
	awk -v s="freeflow_$1{$2}" '$1 == s { print $2 }' "$OUT/samples"
}

pair "$B" "$A" ib_write_bw -F -n 1000 -s 4096
pair "$B" "$A" ib_send_lat -F -n 200 -s 8
python3 "$TREE/tests/rig/tools/prom.py" "$SOCKET" "$TREE/deploy/grafana/freeflow.json" >"$OUT/samples" ||
	fail "the text: $(<"$OUT/samples")"

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
python3 "$TREE/tests/rig/tools/prom.py" "$SOCKET" "$TREE/deploy/grafana/freeflow.json" >"$OUT/samples" ||
	fail "the text: $(<"$OUT/samples")"
n=$(sample container_connected_queue_pairs "by=\"host\",container=\"$A\",tenant=\"default\"")
((n >= 3)) || fail "$n queue pairs: $(grep connected "$OUT/samples")"
load_stop 0
load_server_stop 0

step "the socket is root's"
[[ $(stat -c %a "$SOCKET") == 600 ]] || fail "mode $(stat -c %a "$SOCKET")"
exit 0
