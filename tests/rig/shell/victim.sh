# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# victim.sh - for tests of attacks on other containers: h0c1 is measured (tests/hostile/stalls.c) while a program
# of h0c0 attacks. To be sourced behind lab.sh, with a lab that has both.

coproc victim { inside h0c1 "$BUILD/tests/hostile/stalls" victim; }

# What the victim has done in so many ms: 8-byte WRITEs, a second, p50, p99 and the longest, us; and of its small
# control calls the number, p50, p90 and the longest, us.
measure() { # WHEN [MS]
	echo "${2:-1000}" >&"${victim[1]}"
	read -r -t 60 -u "${victim[0]}" n rate p50 p99 longest calls call50 call90 call_longest ||
		fail "the victim does not answer"
	echo "$1: $n requests, $rate 1/s, p50 $p50 us, p99 $p99 us, longest $longest us;" \
		"$calls calls, p50 $call50 us, p90 $call90 us, longest $call_longest us"
}

# PROGRAM ARG... of tests/hostile attacks, until attack_end: $attack. It says "attacks" when it does.
attack_begin() {
	rm -f "$OUT/go"
	mkfifo "$OUT/go"
	inside h0c0 "$BUILD/tests/hostile/$1" "${@:2}" <"$OUT/go" >"$OUT/$1-$2.log" 2>&1 &
	attack=$! attack_log=$OUT/$1-$2.log
	exec 5>"$OUT/go"
	wait_for 120 attack_goes || {
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
