#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The verbs backend's NIC, removed under traffic and brought back, again and again: rxe of Debian's kernel in a VM.
# FT_REMOVALS: so many times, and no longer than FT_SECONDS.
#
# timeout: 720
. "$(dirname "$0")/common.sh"
vm_test 620 "$TREE/tests/vm/nic-removals-inside.sh"
