#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The router on a kernel of arm64's own, in a VM, with Debian's programs for arm64 between two of its containers, and the
# programs of tests/system that are the whole of their test; but not raw_*, which attack for minutes. Arguments: only these
# of either.
# FT_PAGES=16k or 64k: on a kernel with pages of that size.
#
# timeout: 1500
ARCH=arm64
(($# == 0)) || export FT_ONLY=$*
. "$(dirname "$0")/../vm/common.sh"
cd "$TREE/tests/system" || exit 1
whole=()
for t in *.c; do
	[[ -e ${t%.c}.sh || $t == raw_* ]] || whole+=("${t%.c}")
done
vm_test "${FT_LIMIT:-1400}" "$TREE/tests/arm64/vm-lab-inside.sh" "${whole[@]}"
