#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: docker
# timeout: 600
# pyverbs_debian13.sh [OPTIONS OF pyverbs.py] - the test suite of rdma-core 56 in a Debian 13
# container, as tests/conformance/pyverbs.sh runs that of rdma-core 44.
. "$(dirname "$0")/../rig/shell/lab.sh"
SUITE=$TREE/tests/conformance

# put FILE PATH: a copy inside; these containers see nothing of the tree but build/.
put() {
	# shellcheck disable=SC2016
	inside h0c0 /bin/sh -c 'cat >"$0"' "$2" <"$1"
}

own_lab --containers 1 --image debian13+python3-pyverbs
put "$SUITE/pyverbs.py" /tmp/pyverbs.py || fail "no copy"
put "$SUITE/pyverbs-expected-56.txt" /tmp/expected.txt || fail "no copy"
inside h0c0 python3 /tmp/pyverbs.py /usr/share/doc/rdma-core/tests /tmp/expected.txt \
	--ip "$("$LAB" ip h0c0)" "$@" || fail "not as expected"
exit 0
