#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: hosts
# timeout: 300
# fault_tls.sh - the same load where routers encrypt what they send each other and the orchestrator:
# contents, a link that is cut for a moment, new certificates, a router and an orchestrator that are
# killed; then what a host's certificate may not do, and one that is revoked.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
own_lab --containers 1 --tls

load_both -q 6 -r --timeout 17
load_each load_moves 20 || fail "no traffic"
step "cut for a second, within the least retry budget, 4.3 s"
"$LAB" partition h1
sleep 1 # the cut is what is tested
"$LAB" heal h1
load_each load_unharmed 0 || fail "the cut was noticed"
step "kill -9 of the router of h1; it and the orchestrator have new certificates"
"$LAB" certify ffo || fail "certify"
"$LAB" certify h1 || fail "certify"
"$LAB" kill router h1
load_use back
wait_for 90 load_failed 6 || fail "lanes do not fail"
"$LAB" restart router h1 || fail "restart"
load_each load_returns 120 6 || fail "lanes do not come back"
load_each load_moves 20 || fail "no traffic"
"$LAB" logs ffo | grep "TLS: new certificates were read" || fail "ffo reads no new certificates"
step "kill -9 of the orchestrator"
"$LAB" kill orchestrator
"$LAB" restart orchestrator || fail "restart"
wait_for 90 host_is h0 up || fail "h0 does not come back"
wait_for 90 host_is h1 up || fail "h1 does not come back"
load_each load_moves 20 || fail "no traffic"
load_both_stop

# refused WORDS ARGS...: ffctl of h1 is refused ARGS, and says why.
refused_as_host() {
	local words=$1 out
	shift
	out=$("$LAB" ffctl h1 -- "$@" 2>&1) && fail "a host may $*"
	[[ $out == *"$words"* ]] || fail "$*: $out"
}
step "what needs an operator"
refused_as_host "on host h0" container claim h0c0
refused_as_host "on host h0" container claim h0c0 --force
refused_as_host "operator's certificate" policy allow default other
refused_as_host "operator's certificate" tenant set default --rate 1Gbit
refused_as_host "operator's certificate" container set h1c0 --rate 1Gbit
refused_as_host "container set with --orchestrator" container add late --max-qp 3
refused_as_host "operator's certificate" container list --all
refused_as_host "operator's certificate" map list
"$LAB" ffctl h1 -- map list --container h1c0 || fail "a host's own mappings"
"$LAB" operator -- policy allow default other || fail "policy"
"$LAB" operator -- container set h1c0 --rate 1Gbit || fail "limits"
"$LAB" operator -- map list || fail "map list"
[[ $("$LAB" operator -- --json container list --all | grep -c '"name"') == 2 ]] || fail "container list"
step "h1 hands its container over, an operator claims it back for h1"
"$LAB" stop h1c0 || fail "stop"
"$LAB" ffctl h1 -- container migrate h1c0 --to h0 || fail "migrate"
refused_as_host "on host h0" container claim h1c0
"$LAB" operator --at h1 -- container claim h1c0 || fail "claim"
"$LAB" ffctl h1 -- container list | grep h1c0 || fail "the container is not on h1"
step "the certificate of h1 is revoked"
"$LAB" revoke h1 || fail "revoke"
wait_for 90 host_is h1 down || fail "h1 is still connected"
logged() { # NODE WORDS
	"$LAB" logs "$1" | grep >/dev/null "$2"
}
logged ffo "host h1: closed: its certificate has been revoked" || fail "ffo tells nothing"
wait_for 90 logged h0 "host h1: disconnected: its certificate has been revoked" || fail "h0 keeps h1"
wait_for 90 logged h1 "certificate revoked" || fail "h1 does not learn why"
host_is h1 down || fail "h1 is let in"
"$LAB" certify h1 || fail "certify"
wait_for 90 host_is h1 up || fail "h1 is not let in with a new certificate"
exit 0
