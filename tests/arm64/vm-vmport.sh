#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# vm-vmport.sh - tests/vm/vmport.sh on a kernel for arm64, in VMs, with modules made by the cross compiler and with twenty loads.
# FT_PAGES=64k: a kernel with pages of that size.
#
# timeout: 1200
export ARCH=arm64 FT_LOADS=${FT_LOADS:-20} FT_LIMIT=${FT_LIMIT:-500}
exec "$(dirname "$0")/../vm/vmport.sh"
