#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The verbs backend: rdma-core's test suite in a container, by the NIC's GID, on rxe of the newest kernel. What each test has to
# do is in nic-pyverbs.txt. FT_TESTS: a regular expression of other tests than those of traffic, `^test_(?!mlx5|efa|odp)` for all
# that are in the list; FT_PLAIN=1: before, the same tests on the NIC itself. In a run of all kinds some of the traffic only.
#
# timeout: 600
NEWER=1
. "$(dirname "$0")/common.sh"
. "$TREE/tests/rig/shell/pyverbs.sh"

[[ -z ${FF_BRIEF-} ]] ||
	export FT_TESTS=${FT_TESTS:-'^test_(qpex\.\w+\.test_qp_ex_rc_(send_imm|rdma_write_imm|rdma_read$)|atomic\.\w+\.test_atomic_cmp|cq_events\.\w+\.test_cq_events_rc|mr\.\w+\.test_mr_rereg_addr|rdmacm\.\w+\.test_rdmacm_(sync_traffic|async_read)$)'}
root=$(pyverbs_root) || skip "python3-pyverbs cannot be had from apt"
vm_test "${FT_LIMIT:-500}" "$TREE/tests/vm/nic-pyverbs-inside.sh" "$root"
