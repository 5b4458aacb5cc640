#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The verbs backend: containers' programs on the router's NIC, which is rxe of Debian's kernel in a VM.
#
# timeout: 720
. "$(dirname "$0")/common.sh"
vm_test 620 "$TREE/tests/vm/nic-inside.sh"
