#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# vm-unit.sh - the unit tests on a kernel for arm64, in a VM. Arguments: only these, as room/test_name. FT_PAGES=16k or 64k: a
# kernel with pages of that size.
#
# timeout: 2400
if [[ ! -v FT_IN_VM ]]; then
	ARCH=arm64
	. "$(dirname "$0")/../vm/common.sh"
	vm_test "${FT_LIMIT:-2200}" "$0" "$@"
	exit
fi

# shellcheck source=tests/vm/inside_units.sh
. /out/tree/tests/vm/inside_units.sh
units "$@"
