#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 600
# ucx_head.sh - UCX of today with no variable set: it takes the device rather than TCP. UCX's own tests are run by
# tests/system/ucx_gtest.sh.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/programs.sh"

needs ucx/bin/ucx_perftest
"$PROGRAMS/ucx/bin/ucx_info" -v | head -n 1
ucx_figures "$PROGRAMS/ucx/bin/ucx_perftest"
