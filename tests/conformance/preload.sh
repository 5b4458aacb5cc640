#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# preload.sh - Debian's own programs load with the library in place of rdma-core's, all symbols
# bound at start (LD_BIND_NOW), by LD_PRELOAD and by LD_LIBRARY_PATH, and where no router is say at
# once that there is no device.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

# what the library says is calls.sh's
export FFL_SOCKET=$TMP/no-router.sock FFL_LOG=none LD_BIND_NOW=1

command -v ibv_devinfo >/dev/null || skip "no ibv_devinfo: the package ibverbs-utils is not installed"

LD_PRELOAD=$LIB timeout 20 ibv_devinfo >"$TMP/out" 2>&1
same "ibv_devinfo, LD_PRELOAD, no router" "$(cat "$TMP/out")" "No IB devices found"
LD_LIBRARY_PATH=$(dirname "$LIB") timeout 20 ibv_devinfo >"$TMP/out" 2>&1
same "ibv_devinfo, LD_LIBRARY_PATH, no router" "$(cat "$TMP/out")" "No IB devices found"

# A socket that nobody listens on any more is as good as none.
python3 - "$FFL_SOCKET" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
END
LD_PRELOAD=$LIB timeout 20 ibv_devinfo >"$TMP/out" 2>&1
same "ibv_devinfo, a stale socket" "$(cat "$TMP/out")" "No IB devices found"

LD_PRELOAD="$LIB $CM_LIB" timeout 20 rping -s >"$TMP/out" 2>&1
same "rping, LD_PRELOAD, no router" "$(cat "$TMP/out")" "No RDMA devices were detected"

# The one librdmacm with another's libibverbs is refused by the loader, not by a crash later on.
LD_PRELOAD=$CM_LIB timeout 20 rping -s >"$TMP/out" 2>&1
same "librdmacm alone" "$(grep -c FREEFLOW_PRIVATE "$TMP/out" | awk '{ print ($1 > 0) }')" 1

# Which copy of a library a program has got, and whether anything stayed unresolved: ld.so tells.
for program in ibv_devices ibv_devinfo ibv_asyncwatch ibv_rc_pingpong ibv_uc_pingpong \
	ibv_ud_pingpong ibv_srq_pingpong ibv_xsrq_pingpong ib_write_bw ib_write_lat ib_read_bw \
	ib_read_lat ib_send_bw ib_send_lat ib_atomic_bw ib_atomic_lat rping ucmatose udaddy mckey cmtime \
	rdma_client rdma_server rdma_xclient rdma_xserver rcopy rstream riostream udpong ibacm qperf fio \
	ucx_perftest fi_info; do
	path=$(command -v "$program") || continue
	LD_TRACE_LOADED_OBJECTS=1 LD_WARN=1 LD_PRELOAD="$LIB $CM_LIB" "$path" >"$TMP/out" 2>&1
	bad=$(grep -E 'undefined symbol|not found|no version information' "$TMP/out")
	same "$program resolves" "$bad" ""
done
finish
