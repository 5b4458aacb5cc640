#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# night: hosts
# timeout: 1800
# fault_migration.sh - a container moves $MIGRATIONS times in a row among three hosts while another
# sends to it: it loses its connections, connects again, and nothing that it sent to an old place is seen
# in the new one.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
MIGRATIONS=${MIGRATIONS:-50} # 200 take three minutes
LANES=4
own_lab --hosts 3 --containers 2
moved=h2c1 # it begins there

# Where it was it is not any more.
forgotten() { # HOST
	! "$LAB" ffctl "$1" -- container show $moved >/dev/null 2>&1
}

move() { # HOST
	"$LAB" stop $moved || return 1
	"$LAB" ffctl "$1" -- container claim "$moved" >/dev/null || return 1
	"$LAB" start $moved --on "$1"
}

load_use moved
load_server $moved
load_client h0c0 $moved --seconds 0 -q $LANES -r --timeout 12 -s 1-65536 --rate 5000
load_use beside
load_server h1c0
load_client h0c1 h1c0 --seconds 0 -q 2 -s 1-4096 -r --rate 2000
for pair in moved beside; do
	load_use $pair
	load_moves 20 || fail "$pair: no traffic"
done

from=h2
for ((n = 1; n <= MIGRATIONS; n++)); do
	to=h$(((${from#h} + 1) % 3))
	load_use moved
	move $to || fail "migration $n, $from to $to"
	load_server_died
	load_server $moved
	load_returns 20 $((LANES * n)) || fail "migration $n, $from to $to: lanes do not come back"
	forgotten $from || fail "migration $n: $from still has it"
	((n % 20)) || step "$n migrations"
	from=$to
done
load_stop 0
load_tell
(($(load_of peer_restarts) == LANES * MIGRATIONS)) ||
	fail "$(load_of peer_restarts) lanes found another sink, not $((LANES * MIGRATIONS))"
load_server_stop 0
load_use beside
load_unharmed 0 || fail "a connection beside it failed"
load_stop 0
load_tell
load_server_stop 0
exit 0
