#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: system-san
# night: docker
# timeout: 360
# verbs_router.sh - verbs_router in a container whose router is killed, twice over.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/router_dies.sh"
own_lab --containers 1
router_dies verbs_router
exit 0
