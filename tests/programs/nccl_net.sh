#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 600
# nccl_net.sh - NCCL's transport over verbs (net_ib) without a GPU: nccl_net.c calls it as NCCL does, on host memory,
# with NCCL's defaults. NCCL's transport over TCP does the same after that, for its figures beside these.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/programs.sh"

needs nccl/libnccl-net-ib.so
"${CC:-gcc}" -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -o "$OUT/nccl_net" "$TREE/tests/programs/nccl_net.c" ||
	fail "nccl_net.c"

# plugin NAME: both sides have compared all that they received.
plugin() {
	pair "$A" "$B" "$OUT/nccl_net" "$PROGRAMS/nccl/libnccl-net-$1.so"
	cat "$OUT/client"
	for side in client server; do
		grep -q ': 1 devices, all data verified$' "$OUT/$side" || fail "$side: not what nccl_net prints"
	done
}

moved $((500 << 20)) plugin ib
grep -q 'pciPath /sys/' "$OUT/client" || fail "the device has no folder in /sys"
[[ ! -e $PROGRAMS/nccl/libnccl-net-socket.so ]] || plugin socket
