#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: docker
# timeout: 1200
# verbs_whole.sh - the tests of memory once more, with pages replaced that have other bytes of the program on them,
# as it is where the router has a NIC. Not under ASan: what it makes of the library looks at a variable of ASan's in the
# program's own data (__asan_option_detect_stack_use_after_return), which is on such a page, before a child has it.
. "$(dirname "$0")/../rig/shell/lab.sh"

for program in verbs_memory verbs_mr verbs_fork verbs_fork_context; do
	step "$program"
	inside "$A" env FFL_REPLACE=whole "$BUILD/tests/system/$program" || fail "$program ended with $?"
done
