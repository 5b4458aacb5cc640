#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The verbs backend between two hosts with two NICs each: two VMs in two networks, each with a router that has the kernel's
# rxe on both.
#
# timeout: 600
. "$(dirname "$0")/common.sh"

VM_NETS=2 vm_two vm_test 480 "$TREE/tests/vm/nics-hosts-inside.sh"
