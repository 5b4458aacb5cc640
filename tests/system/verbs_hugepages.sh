#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: docker
# night: system-san
# timeout: 600
# verbs_hugepages.sh - verbs_hugepages in a container of a machine that has huge pages for it.
. "$(dirname "$0")/../rig/shell/lab.sh"

PAGES=32 # of 2 MB
knob=/proc/sys/vm/nr_hugepages

# As a difference, for others may do the same at the same time.
give_back() {
	echo $(($(<$knob) - taken)) >$knob
}

before=$(<$knob) || skip "this kernel has no hugetlb pages"
grep -q '^Hugepagesize: *2048 kB' /proc/meminfo || skip "huge pages are not of 2 MB here"
(echo $((before + PAGES)) >$knob) 2>/dev/null || skip "nr_hugepages cannot be set here"
taken=$(($(<$knob) - before))
trap 'give_back; end_test' EXIT
((taken >= PAGES)) || skip "only $taken of $PAGES huge pages are to be had"

inside h0c0 "$BUILD/tests/system/verbs_hugepages" || fail "verbs_hugepages ended with $?"
