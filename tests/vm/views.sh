#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# views.sh - a router with ffmem.ko, in a VM with Debian's kernel: programs' memory of all kinds is viewed, on-demand
# memory among it, and the module goes when the router has gone.
# timeout: 600
. "$(dirname "$0")/kmod.sh"

# shellcheck disable=SC2119 # make needs no more
kmod_build
vm_tree "$TMP/out"
cp "$TMP/kmod/ffmem.ko" "$TMP/out/tree/"
kmod_run "$TMP/out" 500 "$TREE/tests/vm/views-inside.sh"
