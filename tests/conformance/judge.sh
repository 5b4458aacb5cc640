#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 360
# judge.sh [WORD...] - the judge is the kernel: judge.c, run in a container of the lab, writes the same
# text as on rxe and rdma_cm, which is judge-rxe.txt. What differs is a defect, or stands in
# judge-differs.txt with its reason. Words choose groups, as judge -l names them.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

((EUID == 0)) || skip "needs root for a lab"
make -s -C "$TREE" conformance-programs || exit 1

lab_here

# Parts at the same time, in a container each: most of it is waiting.
lab up --engine netns --containers 3 || exit 1
lab exec h0c0 -- "$BUILD/tests/conformance/judge" -p v "$@" >"$TMP/v" &
verbs=$!
lab exec h0c1 -- "$BUILD/tests/conformance/judge" -p s "$@" >"$TMP/s" &
states=$!
lab exec h0c2 -- "$BUILD/tests/conformance/judge" -p c "$@" >"$TMP/c" || failures=1
wait $verbs || failures=1
wait $states || failures=1
cat "$TMP"/[vsc] >"$TMP/text"
[[ $(lab ps | awk '$2 == "router" { print $5 }') == running ]] ||
	not_ok "the router is alive" "$(lab logs h0 | tail -n 20)"
[[ -z ${JUDGE_TEXT:-} ]] || cp "$TMP/text" "$JUDGE_TEXT"

awk -v all=$(($# == 0)) -f "$HERE/judge.awk" \
	"$HERE/judge-differs.txt" "$HERE/judge-rxe.txt" "$TMP/text" || failures=1
finish
