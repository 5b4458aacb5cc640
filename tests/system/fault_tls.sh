#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 120
# engines: netns
# hosts: only
# fault_tls.sh - the same load where routers encrypt what they send each other and the orchestrator:
# contents, a link that is cut for a moment, new certificates, a router and an orchestrator that are
# killed.
. "$(dirname "$0")/../lib/lab.sh"
. "$(dirname "$0")/../lib/load.sh"
own_lab --containers 1 --tls

load_both -q 6 -r --timeout 17
load_each load_moves 20 || fail "no traffic"
step "cut for a second, within the retry budget of 4.3 s"
"$LAB" partition h1
sleep 1 # the cut is what is tested
"$LAB" heal h1
load_each load_unharmed 0 || fail "the cut was noticed"
step "kill -9 of the router of h1; it and the orchestrator have new certificates"
"$LAB" certify ffo || fail "certify"
"$LAB" certify h1 || fail "certify"
"$LAB" kill router h1
load_use back
until_true 20 load_failed 6 || fail "lanes do not fail"
"$LAB" restart router h1 || fail "restart"
load_each load_returns 30 6 || fail "lanes do not come back"
load_each load_moves 20 || fail "no traffic"
"$LAB" logs ffo | grep "TLS: new certificates were read" || fail "ffo reads no new certificates"
step "kill -9 of the orchestrator"
"$LAB" kill orchestrator
"$LAB" restart orchestrator || fail "restart"
until_true 20 host_is h0 up || fail "h0 does not come back"
until_true 20 host_is h1 up || fail "h1 does not come back"
load_each load_moves 20 || fail "no traffic"
load_both_stop
exit 0
