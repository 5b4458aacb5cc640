#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# vm-ffmem.sh - tests/vm/ffmem.sh on a kernel for arm64, in a VM, with a module made by the cross compiler and with a hundred loads.
# FT_PAGES=64k: a kernel with pages of that size.
#
# timeout: 1200
export ARCH=arm64 FT_LOADS=${FT_LOADS:-100} FT_LIMIT=${FT_LIMIT:-1100}
exec "$(dirname "$0")/../vm/ffmem.sh"
