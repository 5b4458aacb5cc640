# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# halves.sh - runs a program of halves.h in one container, and with its two halves in two containers. Sourced after lab.sh.

two_containers() { # PROGRAM SERVER CLIENT
	local job status

	step "$3 to $2"
	((++PORT))
	"$LAB" exec "$2" -- "$1" --server $PORT >"$OUT/server" 2>&1 </dev/null &
	job=$!
	inside "$3" "$1" --client "$2" --port $PORT
	status=$?
	((status == 0)) || kill $job 2>/dev/null
	wait $job && ((status == 0)) && return
	sed 's/^/  server: /' "$OUT/server"
	fail "client ended with $status"
}

both_halves() { # PROGRAM
	local program=$BUILD/tests/system/$1

	if ((HOSTS == 1)); then
		step "both halves in $A"
		inside "$A" "$program" || fail "$1 ended with $?"
	fi
	two_containers "$program" "$A" "$B"
	# The other way about is another test only where the containers differ.
	[[ $ENGINE == netns ]] || two_containers "$program" "$B" "$A"
}
