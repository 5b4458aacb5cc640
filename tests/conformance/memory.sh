#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: conformance
# night: conformance
# timeout: 7200
# memory.sh [CASE...] - registered memory is ordinary memory: memory.c writes the same text in a
# container of the lab as where nothing is registered, or where pages are only pinned. What differs
# is a defect, or stands in memory-differs.txt with its reason. CASE... are patterns of cases
# (memory -l -f lists them). Without them, it runs the full product, and a part of it in CI.
# MEMORY_TEXTS is a folder to leave the texts in.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

((EUID == 0)) || skip "needs root for a lab"
make -s -C "$TREE" conformance-programs || exit 1
memory=$BUILD/tests/conformance/memory
args=()
for c in "$@"; do
	args+=(-c "$c")
done
[[ $# -gt 0 || -n ${FF_BRIEF-} ]] || args=(-f)

# For the kind hugetlb. As a difference, for others may do the same at the same time.
knob=/proc/sys/vm/nr_hugepages taken=0
give_back() {
	((taken == 0)) || echo $(($(<"$knob") - taken)) >"$knob"
}
lab_here
trap 'lab down >/dev/null 2>&1; rm -rf "$TMP"; give_back' EXIT
if [[ -z ${FF_BRIEF-} ]] && before=$(<"$knob") 2>/dev/null &&
	(echo $((before + 48)) >"$knob") 2>/dev/null; then
	taken=$(($(<"$knob") - before))
fi

lab up --engine netns --containers 1 || exit 1
# The truth, made while freeflow's text is.
("$memory" -m none "${args[@]}" >"$TMP/none" && "$memory" -m pin "${args[@]}" >"$TMP/pin") &
truth=$!
lab exec h0c0 -- "$memory" -m dev "${args[@]}" >"$TMP/dev" 2>"$TMP/err" || failures=1
wait $truth || failures=1
[[ $(lab ps | awk '$2 == "router" { print $5 }') == running ]] ||
	not_ok "the router is alive" "$(lab logs h0 | tail -n 20)"
[[ -z ${MEMORY_TEXTS-} ]] || cp "$TMP"/{none,pin,dev,err} "$MEMORY_TEXTS/"

chosen=brief
((taken < 48)) || chosen=full
(($# == 0)) || chosen=some
awk -v chosen=$chosen -f "$HERE/memory.awk" \
	"$HERE/memory-differs.txt" "$TMP"/{none,pin,dev} || failures=1
finish
