#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# calls.sh - what the exported names answer that no verbs program of today reaches: see calls.c.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

export FFL_SOCKET=$TMP/no-router.sock
gcc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -o "$TMP/calls" "$HERE/calls.c" || exit 1
timeout 20 "$TMP/calls" "$LIB" "$TMP" || failures=1

# FFL_LOG: nothing on stdout. Why there is no device is an error where FFL_SOCKET names a socket; without it, and without the
# folder of containers' sockets, it is told with info only.
probe='import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); l.ibv_get_device_list(None)'
says() { # ENV...: what the library says with these
	env "$@" python3 -c "$probe" "$LIB" 2>&1 >/dev/null | sed 's/^ffl\[[0-9]*\]: //; s/: is .*//'
}
if [[ ! -e /run/freeflow ]]; then
	same "quiet by default" "$(says -u FFL_SOCKET)" ""
	same "FFL_LOG=info says why" "$(says -u FFL_SOCKET FFL_LOG=info)" \
		"info: no router at /run/freeflow/ffr.sock: No such file or directory: does ffr run, is the container known to it (ffctl doctor NAME), and the folder of its socket mounted here?"
fi
same "FFL_SOCKET" "$(says FFL_SOCKET="$FFL_SOCKET")" "error: no router at $FFL_SOCKET: No such file or directory"
same "FFL_LOG=none" "$(says FFL_LOG=none)" ""
same "FFL_LOG=foo" "$(says FFL_LOG=foo | head -n 1)" \
	"error: FFL_LOG=foo: not none, error, warn, info or debug: debug is taken"
FFL_LOG=3:$TMP/log python3 -c "$probe" "$LIB" >"$TMP/out" 2>&1
same "FFL_LOG=LEVEL:FILE" "$(grep -c 'no router' "$TMP/log") $(cat "$TMP/out")" "1 "
finish
