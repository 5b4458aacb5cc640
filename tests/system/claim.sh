#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: hosts
# timeout: 360
# claim.sh - a container that runs is not claimed from another host without --force, although no program has its device open;
# of two hosts that claim a container at once one gets it.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --hosts 3 --containers 1
c=h0c0
ip=$("$LAB" ip $c)

claim() { # HOST [--force]
	"$LAB" ffctl "$1" -- container claim $c "${@:2}" >"$OUT/claim.$1" 2>&1
}

has() { # HOST
	"$LAB" ffctl "$1" -- container show $c >/dev/null 2>&1
}

refused() { # HOST TEXT
	claim "$1" && fail "$1 could claim it"
	grep -q "$2" "$OUT/claim.$1" || fail "$1: $(cat "$OUT/claim.$1")"
	has h0 || fail "h0 has lost it"
}

step "it runs, and no program has the device open"
refused h1 'h0 says that it is in use'
"$LAB" ffctl h0 -- container migrate $c --to h1 >"$OUT/migrate" 2>&1 && fail "h0 could hand it over"
grep -q 'in use on this host' "$OUT/migrate" || fail "$(cat "$OUT/migrate")"
inside $c ibv_devinfo 2>&1 | grep >/dev/null 'hca_id:.*ff0' || fail "it has no device"

step "it runs while it is removed and added again"
"$LAB" ffctl h0 -- container rm $c 2>"$OUT/rm" || fail "rm: $(cat "$OUT/rm")"
grep -q 'warning: .* still runs' "$OUT/rm" || fail "rm says nothing: $(cat "$OUT/rm")"
"$LAB" ffctl h0 -- container add $c --ip "$ip" 2>"$OUT/add" >/dev/null || fail "add: $(cat "$OUT/add")"
grep -q 'warning: .* start it anew' "$OUT/add" || fail "add says nothing: $(cat "$OUT/add")"

step "it has stopped, and two hosts claim it at once"
"$LAB" stop $c || fail "stop"
claim h1 &
first=$!
claim h2 &
second=$!
rc1=0
rc2=0
wait $first || rc1=$?
wait $second || rc2=$?
(((rc1 == 0) + (rc2 == 0) == 1)) ||
	fail "h1 $rc1, h2 $rc2: $(cat "$OUT/claim.h1" "$OUT/claim.h2")"
winner=h1
loser=h2
((rc1 == 0)) || { winner=h2 loser=h1; }
has $winner || fail "$winner does not have it"
has $loser && fail "$loser has it, too"
grep -q 'meanwhile\|a moment ago' "$OUT/claim.$loser" || fail "$loser: $(cat "$OUT/claim.$loser")"
"$LAB" start $c --on $winner || fail "start"
inside $c ibv_devinfo 2>&1 | grep >/dev/null 'hca_id:.*ff0' || fail "it has no device on $winner"

step "its host does not answer"
"$LAB" partition $winner $loser
claim $loser && fail "$loser could claim it"
grep -q 'use --force' "$OUT/claim.$loser" || fail "$(cat "$OUT/claim.$loser")"
claim $loser --force || fail "$loser cannot claim it with --force: $(cat "$OUT/claim.$loser")"
has $loser || fail "$loser does not have it"
"$LAB" heal $winner $loser
exit 0
