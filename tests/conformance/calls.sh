#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# calls.sh - what the exported names answer that no verbs program of today reaches: see calls.c.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

export FFL_SOCKET=$TMP/no-router.sock
gcc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -o "$TMP/calls" "$HERE/calls.c" || exit 1
timeout 20 "$TMP/calls" "$LIB" "$TMP" || failures=1

# FFL_LOG: nothing on stdout, errors only by default, why there is no device with info
probe='import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); l.ibv_get_device_list(None)'
same "quiet by default" "$(python3 -c "$probe" "$LIB" 2>&1)" ""
same "FFL_LOG=info says why" \
	"$(FFL_LOG=info python3 -c "$probe" "$LIB" 2>&1 >/dev/null | sed 's/^ffl\[[0-9]*\]: //; s/: is the .*//')" \
	"info: no router at $FFL_SOCKET: No such file or directory"
FFL_LOG=3:$TMP/log python3 -c "$probe" "$LIB" >"$TMP/out" 2>&1
same "FFL_LOG=LEVEL:FILE" "$(grep -c 'no router' "$TMP/log") $(cat "$TMP/out")" "1 "
finish
