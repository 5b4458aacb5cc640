#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# tests/vm/ffrio.sh with modules made by the cross compiler, on a kernel of arm64's own, in a VM; with fifty loads.
# FT_PAGES=64k: on a kernel with pages of that size.
#
# timeout: 1200
export ARCH=arm64 FT_LOADS=${FT_LOADS:-50} FT_LIMIT=${FT_LIMIT:-1100}
exec "$(dirname "$0")/../vm/ffrio.sh"
