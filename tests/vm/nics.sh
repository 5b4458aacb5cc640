#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The verbs backend with two NICs: two of Debian's kernel's rxe in a VM, and a container on each.
#
# timeout: 420
. "$(dirname "$0")/common.sh"
vm_test 360 "$TREE/tests/vm/nics-inside.sh"
