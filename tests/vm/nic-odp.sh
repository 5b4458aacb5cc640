#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The verbs backend and on-demand paging: a NIC that pages on demand (rxe of the newest kernel), ffmem.ko, and peers that
# have the NIC for themselves.
#
# timeout: 600
NEWER=1
. "$(dirname "$0")/kmod.sh"
. "$TREE/tests/rig/shell/pyverbs.sh"

VM_APPEND=${VM_APPEND/norandmaps/} # rxe's views are at the program's addresses, which must not be the router's own
# shellcheck disable=SC2119 # make needs no more
kmod_build
vm_tree "$TMP/out"
cp "$TMP/kmod/ffmem.ko" "$TMP/out/tree/"
kmod_run "$TMP/out" "${FT_LIMIT:-500}" "$TREE/tests/vm/nic-odp-inside.sh" "$(pyverbs_root)"
