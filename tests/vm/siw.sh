#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# siw.sh - the verbs backend on iWARP: containers' programs on the router's NIC, which is the kernel's siw in a VM, beside
# programs that use it themselves.
#
# timeout: 600
. "$(dirname "$0")/kmod.sh"
VM_APPEND=${VM_APPEND/norandmaps/} # what siw writes to is at the program's addresses, which must not be the router's own

siw_module
out=$TMP/siw
vm_tree "$out"
cp "$SIW/siw.ko" "$out/"
kmod_run "$out" "${FT_LIMIT:-500}" "$TREE/tests/vm/siw-inside.sh"
