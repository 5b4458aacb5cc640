#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The unit tests on a kernel of arm64's own, in a VM; arguments: only these, as room/test_name.
# FT_PAGES=16k or 64k: on a kernel with pages of that size.
#
# timeout: 2400
ARCH=arm64
. "$(dirname "$0")/../vm/common.sh"
vm_test "${FT_LIMIT:-2200}" "$TREE/tests/vm/unit-inside.sh" "$@"
