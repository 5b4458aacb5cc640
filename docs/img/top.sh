#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# top.sh - makes top.svg, the screen of `ffctl top` as text: four containers under load in a lab of its own. Needs root,
# a build, and Debian's tmux, whose screen it is.
. "$(dirname "$0")/../../tests/rig/shell/lab.sh"
. "$TREE/tests/rig/shell/load.sh"

command -v tmux >/dev/null || fail "no tmux (apt-get install tmux)"
own_lab --containers 4
router_ctl container set h0c3 --tx-rate 1Gbit >/dev/null || fail "container set"
load_use one
load_server h0c0
load_client h0c1 h0c0 --seconds 0 -q 4
load_use two
load_server h0c2
load_client h0c3 h0c2 --seconds 0 -q 2
load_moves 60 || fail "no traffic"

screen() {
	tmux -L "$$" -f /dev/null "$@"
}
screen new-session -d -x 80 -y 8 "$BUILD/bin/ffctl --admin $OWN_LAB/h0/admin.sock top --sort tx" || fail "tmux"
shows() {
	screen capture-pane -p -e >"$OUT/screen"
	awk '/h0c[0-3] / && $7 != "-" { n++ } END { exit n < 4 }' "$OUT/screen"
}
wait_for 60 shows
shown=$?
screen kill-server
((!shown)) || fail "$(cat "$OUT/screen")"
python3 "$TREE/docs/img/screen.py" "ffctl top" <"$OUT/screen" >"$TREE/docs/img/top.svg" || fail "screen.py"
for pair in one two; do
	load_use $pair
	load_stop 0
	load_server_stop 0
done
exit 0
