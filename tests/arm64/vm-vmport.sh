#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# tests/vm/vmport.sh with modules made by the cross compiler, on a kernel of arm64's own, in VMs; with twenty loads.
# FT_PAGES=64k: on a kernel with pages of that size.
#
# timeout: 1200
export ARCH=arm64 FT_LOADS=${FT_LOADS:-20} FT_LIMIT=${FT_LIMIT:-500}
exec "$(dirname "$0")/../vm/vmport.sh"
