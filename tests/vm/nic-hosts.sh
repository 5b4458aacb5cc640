#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The verbs backend between two hosts: two VMs, each with a router that has the kernel's rxe for a NIC.
#
# timeout: 600
. "$(dirname "$0")/common.sh"

vm_two vm_test 420 "$TREE/tests/vm/nic-hosts-inside.sh"
