#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns hosts
# all: system-san
# night: docker
# timeout: 600
# verbs_peer.sh - verbs_peer in one container and in two (halves.sh).
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/halves.sh"

both_halves verbs_peer
