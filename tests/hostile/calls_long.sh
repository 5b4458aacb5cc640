#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 480
# calls_long.sh - calls_long.c in a lab of its own, on the host: it stops the router, and has sockets of two containers.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/victim.sh"

own_lab --containers 2
beside_victim "$BUILD/tests/hostile/calls_long" || fail "calls_long"
exit 0
