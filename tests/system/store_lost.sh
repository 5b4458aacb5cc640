#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# timeout: 240
# store_lost.sh - a router is started anew with an empty store: folders of containers that run stay, and the containers
# have their device again when the operator adds them, or when the store is back.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 2

run=$OWN_LAB/h0/run/containers
store=$OWN_LAB/h0/ffo.db

numbers() { # of the folders, as the kernel has them
	stat -c %i "$run/h0c0" "$run/h0c1"
}

before=$(numbers)
pair h0c0 h0c1 ib_send_lat -F -n 100

step "an empty store"
"$LAB" kill router h0
mkdir "$OUT/lost" "$run/stopped"
mv "$store"* "$OUT/lost"
"$LAB" restart router h0 || fail "restart"
wait_for 30 test ! -e "$run/stopped" || fail "a folder that nobody has mounted is still there"
[[ $(numbers) == "$before" ]] || fail "folders of containers that run were removed"

step "lab restart has added the containers, as an operator does"
pair h0c0 h0c1 ib_send_lat -F -n 100

step "the store is back"
"$LAB" kill router h0
rm "$store"*
mv "$OUT/lost/"* "$(dirname "$store")"
"$LAB" restart router h0 || fail "restart"
[[ $(numbers) == "$before" ]] || fail "they have other folders now"
pair h0c0 h0c1 ib_send_lat -F -n 100
exit 0
