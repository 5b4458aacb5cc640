#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# memory.sh - how the library replaces pages under a running program (ffl/mem), on Debian's kernel. Its userfaultfd has fewer
# features than that of a newer kernel, and its mremap() unmaps before it refuses. Arguments: other unit tests, as
# room/test_name.
#
# night: vm
# timeout: 1800
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/common.sh"
	vm_test "${FT_LIMIT:-840}" "$0" "$@"
	exit
fi

# shellcheck source=tests/vm/inside_units.sh
. /out/tree/tests/vm/inside_units.sh
(($#)) || set -- ffl/mem/test_{window,region,region_kinds,region_stress,kind,mr,heat,malloc,fork}
units "$@"
