#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# memory.sh - how the library replaces pages under a running program (ffl/mem), on Debian's kernel: its userfaultfd
# has less than that of a newer one, and its mremap() unmaps before it refuses. Arguments: other unit tests.
#
# night: vm
# timeout: 900
. "$(dirname "$0")/common.sh"
(($#)) || set -- ffl/mem/test_{window,region,region_kinds,region_stress,kind,mr,heat,malloc,fork}
vm_test "${FT_LIMIT:-840}" "$TREE/tests/vm/unit-inside.sh" "$@"
