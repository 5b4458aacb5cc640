# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# cm.sh - pairs of programs that find each other through rdma_cm. Sourced by tests/system/cm_*.sh
# after lab.sh.
#
# The router counts a container's listeners: that is how a server is known to be ready.

# Starts PROGRAM in a container and waits until it has N listeners more; its job is $SERVER_JOB.
cm_server() { # CONTAINER N PROGRAM ARGS...
	local c=$1 want
	want=$(($(counter "$c" cm_listeners) + $2))
	shift 2
	"$LAB" exec "$c" -- "$@" >"$OUT/server" 2>&1 </dev/null &
	SERVER_JOB=$!
	wait_for 60 cm_ready "$c" "$want" || server_failed "$@"
	running $SERVER_JOB || server_failed "$@"
}

cm_ready() {
	(($(counter "$1" cm_listeners) >= $2)) || ended "$SERVER_JOB"
}

CM_SERVER=$A
CM_CLIENT=$B

# cm_pair SERVER-COMMAND CLIENT-COMMAND: in $CM_SERVER and $CM_CLIENT, each a string of words. Both
# have to end with 0 and to report no error; what they print is in $OUT/server and $OUT/client.
cm_pair() {
	local status server_status
	step "$2 ($CM_CLIENT to $CM_SERVER)"
	# shellcheck disable=SC2086
	cm_server $CM_SERVER 1 $1
	# shellcheck disable=SC2086
	timeout "${PAIR_TIMEOUT:-180}" "$LAB" exec $CM_CLIENT -- $2 >"$OUT/client" 2>&1 </dev/null
	status=$?
	! cm_raced $status "$OUT/client" || status=0
	((status == 0)) || kill "$SERVER_JOB" 2>/dev/null
	wait "$SERVER_JOB"
	server_status=$?
	! cm_raced $server_status "$OUT/server" || server_status=0
	if ((status || server_status)) || complaint "$OUT/client" || complaint "$OUT/server"; then
		cm_show
		fail "client ended with $status, server with $server_status"
	fi
}

# cm_raced STATUS OUTPUT: did rping lose its own race at its end? Its thread for events asks for the next one, although
# main() has destroyed the channel after the disconnection, and exits with 255. Debian 12's rping has no other way to end
# that thread; later ones wake it by an eventfd first.
cm_raced() {
	(($1 == 255)) && grep 'DISCONNECT EVENT' "$2" >/dev/null &&
		grep 'rdma_get_cm_event: Bad file descriptor' "$2" >/dev/null
}

cm_show() {
	sed 's/^/  client: /' "$OUT/client"
	sed 's/^/  server: /' "$OUT/server"
}

# said FILE N TEXT: so many lines of what a side printed match.
said() {
	local n
	n=$(grep -c -e "$3" "$OUT/$1")
	((n == $2)) || {
		cm_show
		fail "the $1 says \"$3\" $n times, not $2"
	}
}

# Nothing of rdma_cm is left in a container.
cm_none() { # CONTAINER
	[[ $(counter "$1" cm_ids cm_listeners cm_connections) == "0 0 0" ]]
}
