#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: docker
# timeout: 300
# demo.sh - `make demo`'s program, as a newcomer runs it.
. "$(dirname "$0")/../rig/shell/lab.sh"

FF_BUILD=$BUILD FF_LAB=$OUT/demo "$TREE/tests/lab/demo" >"$OUT/demo.log" 2>&1 || {
	cat "$OUT/demo.log"
	fail "status"
}
cat "$OUT/demo.log"
grep -qs 'ib_write_bw.*MiB/s' "$OUT/demo.log" || fail "no bandwidth"
grep -qs 'ib_send_lat.*usec' "$OUT/demo.log" || fail "no latency"
[[ ! -e $OUT/demo ]] || fail "the demo left its lab"
exit 0
