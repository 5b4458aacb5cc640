#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# night: docker system-san
# timeout: 360
# rs_router.sh - rs_router in a container whose router is killed, twice over.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/router_dies.sh"
own_lab --containers 1
router_dies rs_router
exit 0
