#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The verbs backend and memory as programs have it: small, unaligned, with neighbours, against a peer that has the
# NIC for itself.
#
# test: vm
# timeout: 600
. "$(dirname "$0")/common.sh"
vm_test 500 "$TREE/tests/vm/nic-memory-inside.sh"
