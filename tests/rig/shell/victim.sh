# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# victim.sh - for tests of attacks on other containers: a program of h0c0 attacks, and h0c1 is the victim. To be sourced
# behind lab.sh, with a lab that has both. How fast the victim is, is for make bench: here it must get on.

HUNG=120 # s

# beside_victim CMD...: a program on the host that attacks as h0c0, while h0c1 is the victim (rig/verbs/order.h).
beside_victim() {
	local status
	FFL_SOCKET=$FF_LAB/h0/run/containers/h0c0/ffr.sock FF_VICTIM=$FF_LAB/h0/run/containers/h0c1/ffr.sock \
		FF_ROUTER=$(<"$FF_LAB/h0/router.pid") LD_LIBRARY_PATH=$BUILD/lib "$@"
	status=$?
	kill -CONT "$(<"$FF_LAB/h0/router.pid")"
	return $status
}

# From here on h0c1 has a connection, which victim_gets_on uses.
victim_start() {
	coproc victim { inside h0c1 "$BUILD/tests/hostile/stalls" victim; }
}

# The victim has 5,000 8-byte WRITEs and 500 small control calls completed, one after the other. A victim that waits each
# time for a request of the attacker's that takes 0.1 s does not come to an end.
victim_gets_on() { # WHEN
	local word=
	echo "5000 500" >&"${victim[1]}"
	read -r -t $HUNG -u "${victim[0]}" word
	[[ $word == "done" ]] || fail "$1: the victim does not get on: $word"
	echo "$1: the victim gets on"
}

# PROGRAM ARG... of tests/hostile attacks, until attack_end: $attack. It says "attacks" when it does.
attack_begin() {
	rm -f "$OUT/go"
	mkfifo "$OUT/go"
	inside h0c0 "$BUILD/tests/hostile/$1" "${@:2}" <"$OUT/go" >"$OUT/$1-$2.log" 2>&1 &
	attack=$! attack_log=$OUT/$1-$2.log
	exec 5>"$OUT/go"
	wait_for $HUNG attack_goes || {
		cat "$attack_log"
		fail "the attack does not begin"
	}
	attack_goes_on
}

attack_goes() {
	grep -qs attacks "$attack_log" || ended "$attack"
}

attack_goes_on() {
	running "$attack" || {
		cat "$attack_log"
		fail "the attack has ended"
	}
}

attack_end() {
	exec 5>&-
	wait "$attack"
}
