#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: docker
# copied.sh - memory that is copied rather than shared, and why, is told by ffctl stats and container show, by the metrics
# and by the program's library.
. "$(dirname "$0")/../rig/shell/lab.sh"

host=$(<"$FF_LAB/$A/host")
ctl() { "$LAB" ffctl "$host" -- "$@"; }
value() { # EXPRESSION: of the answer `a` on standard input
	python3 -c 'import json, sys; a = json.load(sys.stdin); print(eval(f"({sys.argv[1]})"))' "$1"
}
# Without UFFDIO_MOVE (Linux 6.8) large memory is shared at once.
lazy() { [[ $(printf '6.8\n%s\n' "$(uname -r)" | sort -V | head -n 1) == 6.8 ]]; }

mkfifo "$OUT/hold"
"$LAB" exec "$A" -- env FFL_LOG=info "$BUILD/tests/system/copied" <"$OUT/hold" >"$OUT/out" 2>"$OUT/err" &
exec 9>"$OUT/hold"
ready() { grep -qx ready "$OUT/out"; }
wait_for 60 ready || fail "$(<"$OUT/err")"

step "sums by reason"
ctl --json stats "$A" >"$OUT/stats"
[[ $(value 'a[0]["copied_bytes"]["attribute"]' <"$OUT/stats") == 131072 ]] || fail "$(<"$OUT/stats")"
[[ $(value 'a[0]["copied_bytes"]["rights"]' <"$OUT/stats") == 32768 ]] || fail "$(<"$OUT/stats")"
! lazy || [[ $(value 'a[0]["copied_bytes"]["unused"]' <"$OUT/stats") == 4194304 ]] || fail "$(<"$OUT/stats")"
[[ $(value 'sum(a[0]["copied_bytes"].values()) + a[0]["zero_copy_bytes"] == a[0]["registered_bytes"]' \
	<"$OUT/stats") == True ]] || fail "$(<"$OUT/stats")"
ctl stats "$A" >"$OUT/table"
grep -qE '^  copied_bytes +131072 .*MADV_DONTFORK' "$OUT/table" || fail "$(<"$OUT/table")"
ctl container show "$A" >"$OUT/table"
grep -qE '^copied  .* 128kB: attribute' "$OUT/table" || fail "$(<"$OUT/table")"

step "one line for each memory region"
ctl --json stats "$A" --mrs >"$OUT/mrs"
[[ $(value 'sorted(m["copied_why"] for m in a[0]["mr_list"] if m["copied_bytes"] in (131072, 32768))' <"$OUT/mrs") == \
	"['attribute', 'rights']" ]] || fail "$(<"$OUT/mrs")"
[[ $(value 'any(m["zero_copy_bytes"] == 65536 and not m["copied_bytes"] and "copied_why" not in m
	for m in a[0]["mr_list"])' <"$OUT/mrs") == True ]] || fail "$(<"$OUT/mrs")"
ctl stats "$A" --mrs >"$OUT/table"
grep -qE "^CONTAINER .* WHY *$" "$OUT/table" || fail "$(<"$OUT/table")"
grep -qE "^$A .* attribute *$" "$OUT/table" || fail "$(<"$OUT/table")"

step "metrics"
curl -s --unix-socket "$FF_LAB/$host/metrics.sock" http://x/metrics >"$OUT/metrics"
grep -q "^freeflow_container_copied_bytes{container=\"$A\",.*reason=\"attribute\"} 131072$" "$OUT/metrics" ||
	fail "$(grep copied "$OUT/metrics")"

step "the library's own word"
grep -q '131072 bytes: 131072 are copied: shared memory cannot have' "$OUT/err" || fail "$(<"$OUT/err")"

echo >&9
exec 9>&-
wait $! || fail "copied: $(<"$OUT/err")"
gone() { [[ $(ctl --json stats "$A" | value 'a[0]["copied_bytes"]') == "{}" ]]; }
wait_for 30 gone || fail "$(ctl --json stats "$A")"
exit 0
