#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: docker
# night: docker
# timeout: 480
# interop.sh - programs of Debian 11 (h0c2) and Debian 13 (h0c3) with the one library, against each
# other and against Debian 12 (h0c0, h0c1).
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/cm.sh"

for c in h0c0:12 h0c2:11 h0c3:13; do
	[[ $(inside "${c%:*}" cat /etc/debian_version) == "${c#*:}".* ]] ||
		fail "${c%:*} is not Debian ${c#*:}"
done

# Debian 11's perftest and later ones speak different versions of their own rendezvous.
old_new() { # SERVER CLIENT
	pair "$1" "$2" ibv_rc_pingpong -g 0 -n 500 -c
	pair "$1" "$2" ibv_rc_pingpong -g 0 -n 500 -e -N
	pair "$1" "$2" ibv_uc_pingpong -g 0 -n 500
	pair "$1" "$2" ibv_ud_pingpong -g 0 -n 500
	pair "$1" "$2" ibv_srq_pingpong -g 0 -n 500 -e
}

for peer in h0c2 h0c3; do
	old_new h0c0 $peer
	old_new $peer h0c0
done
old_new h0c2 h0c3

perftests() { # SERVER CLIENT
	local verb
	for verb in write read send; do
		pair "$1" "$2" ib_${verb}_bw -F -n 500 -s 65536
		bandwidth 500 65536
		pair "$1" "$2" ib_${verb}_lat -F -n 500 -s 8
		latency 500 8
	done
	pair "$1" "$2" ib_atomic_bw -F -n 500
	bandwidth 500 8
	pair "$1" "$2" ib_send_bw -F -n 500 -c UD -s 1024 -q 4
	bandwidth 2000 1024
}

for peer in h0c2 h0c3; do
	perftests $peer h0c0
	at_night perftests h0c0 $peer
done

by_cm() { # SERVER CLIENT
	local ip
	ip=$("$LAB" ip "$1")
	CM_SERVER=$1 CM_CLIENT=$2
	cm_pair "rping -s -V -C 100 -S 4096" "rping -c -V -C 100 -S 4096 -a $ip"
	cm_pair "ucmatose -c 4" "ucmatose -c 4 -s $ip"
	cm_pair "rstream -T v -S 65536 -C 20" "rstream -T v -S 65536 -C 20 -s $ip"
}

for peer in h0c2 h0c3; do
	by_cm $peer h0c0
	by_cm h0c0 $peer
done
by_cm h0c2 h0c3
exit 0
