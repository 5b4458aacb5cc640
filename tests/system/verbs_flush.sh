#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: hosts docker system-san
# timeout: 600
# verbs_flush.sh - verbs_flush in one container and in two (halves.sh); what is counted.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/halves.sh"

before=$(counter "$B" flush_ops)
both_halves verbs_flush
after=$(counter "$B" flush_ops)
((after > before)) || fail "flush_ops stayed $after"
