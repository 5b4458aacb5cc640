#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 300
# descriptors.sh - descriptors.c in a lab of its own: the router has none of them afterwards.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/holdings.sh"
own_lab --containers 1
given_back descriptors_of_any_kind "$BUILD/tests/hostile/descriptors"
exit 0
