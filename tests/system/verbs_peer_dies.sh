#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: hosts system-san
# night: docker
# timeout: 600
# verbs_peer_dies.sh - verbs_peer_dies in one container and in two (halves.sh).
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/halves.sh"

both_halves verbs_peer_dies
