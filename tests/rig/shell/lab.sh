# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# lab.sh - what tests/system/*.sh have in common. Source it first. The lab is the runner's (tests/run), or the one
# that you brought up by hand. Programs run in containers, as anybody would run them.
set -u -o pipefail

TREE=$(readlink -f "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../..")
LAB=${LAB:-$TREE/tests/lab/lab}
export FF_LAB=${FF_LAB:-/tmp/freeflow-lab}
BUILD=${BUILD:-$TREE/build}
ENGINE=${ENGINE:-$(cat "$FF_LAB/engine" 2>/dev/null || echo netns)}
HOSTS=${HOSTS:-$([[ -e $FF_LAB/fabric ]] && grep -c '^h' "$FF_LAB/fabric" || echo 1)}
SANITIZED=${SANITIZED:-0}
OUT=$(mktemp -d "${WORK:-/tmp}/test.XXXXXX")
chmod o+x "$OUT" # routers of labs in it are users of their own
OWN_LAB=
PORT=18515

# in_full CMD...: what needs to be seen once only: on one host, with network namespaces, not sanitized.
in_full() {
	[[ $HOSTS != 1 || $ENGINE != netns || $SANITIZED != 0 ]] || "$@"
}

# at_night CMD...: what CI leaves out, because other commands of the same test show the same. FF_BRIEF is set in CI.
at_night() {
	[[ -n ${FF_BRIEF-} ]] || "$@"
}

# The containers of tests that run on one host and on two alike (header `hosts: yes`): what is between
# A and B goes from host to host in kind `hosts`. C is a neighbour of A there, and D of B.
if ((HOSTS > 1)); then
	A=h0c0 B=h1c0 C=h0c1 D=h1c1
else
	A=h0c0 B=h0c1 C=h0c2 D=h0c3
fi
export A B C D

end_test() {
	local jobs bad=0
	jobs=$(jobs -p)
	# shellcheck disable=SC2086
	[[ -z $jobs ]] || kill $jobs 2>/dev/null
	if [[ -n $OWN_LAB ]]; then
		own_lab_well || bad=1
		FF_LAB=$OWN_LAB "$LAB" down || bad=1
	fi
	rm -rf "$OUT"
	((!bad)) || exit 1
}

# The sandbox of no daemon in this test's own lab refused a system call (ffr/lib/sandbox.c lacks it then), and no
# sanitizer reported.
own_lab_well() {
	local logs=("$OWN_LAB"/*/*.log) reports=("$OWN_LAB"/*/san.*) bad=0
	# `cat` first: grep ends with 2, not 0, if it finds a line but not a file.
	if cat "${logs[@]}" 2>/dev/null | grep 'sandbox: the .* may not call'; then
		bad=1
	fi
	if cat "${reports[@]}" 2>/dev/null; then
		bad=1
	fi
	return $bad
}
trap end_test EXIT
trap 'exit 130' TERM INT

fail() {
	echo "FAIL: $*"
	exit 1
}

skip() {
	echo "$*"
	exit 77
}

# step WORDS...: what comes next, for the log.
step() {
	echo "-- $*"
}

# For programs that run in the background and are to get signals: "$LAB" exec C -- CMD... &
inside() { # CONTAINER CMD...
	local c=$1
	shift
	"$LAB" exec "$c" -- "$@"
}

# remote_shell NAME: a program $OUT/NAME that takes the place of ssh, `NAME [OPTIONS] CONTAINER COMMAND...`.
remote_shell() {
	cat >"$OUT/$1" <<-RSH
		#!/bin/bash
		while [[ \$1 == -* ]]; do
			[[ \$1 != -o ]] || shift
			shift
		done
		host=\$1
		shift
		exec "$LAB" exec "\$host" -- /bin/sh -c "\$*" </dev/null
	RSH
	chmod +x "$OUT/$1"
}

# End the programs of that name in a container, by its shell alone: not every image has pidof.
end_program() { # CONTAINER NAME
	# shellcheck disable=SC2016
	inside "$1" sh -c 'for p in /proc/[0-9]*; do
		read -r name <"$p/comm" && [ "$name" = "$0" ] && kill "${p#/proc/}"
	done 2>/dev/null; true' "$2"
}

router_ctl() {
	"$LAB" ffctl h0 -- "$@"
}

# Print the round numbers 1 to N of a loop. With FF_BRIEF, in CI, print 1 only, because each round takes a minute.
rounds() { # N
	seq "$([[ -n ${FF_BRIEF-} ]] && echo 1 || echo "$1")"
}

# A lab for this test alone, with lab up's options, of as many hosts as the shared one; end_test takes
# it down.
own_lab() {
	OWN_LAB=$(mktemp -u "${WORK:-/tmp}/own-XXXXXX")
	FF_LAB=$OWN_LAB
	"$LAB" up --engine "$ENGINE" --hosts "$HOSTS" "$@" || fail "lab up $*"
}

# Its network namespaces and the like begin with that.
lab_id() { # LAB-FOLDER
	printf 'ff%06x' $(($(cksum <<<"$1" | cut -d ' ' -f 1) & 0xffffff))
}

# What is left of a lab, which is nothing after down.
left() { # LAB-FOLDER: what is left of that lab
	local id
	id=$(lab_id "$1")
	ip netns list | grep "^$id"
	grep -F " $1/" /proc/self/mountinfo
	pgrep -af -- "$1/" | grep -v 'tests/system'
	[[ ! -e $1 ]] || echo "$1"
}

# wait_for SECONDS CMD...: waits for a condition, false when the time is over.
wait_for() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		nap 0.02
	done
}

# As sleep, without a process. Nobody writes into that pipe.
nap() { # SECONDS
	read -r -t "$1" -u "$NAP" || true
}
exec {NAP}<> <(:)

# Did a program end by itself, with an error? 124 to 127 are timeout's and the shell's, above 128 it
# was a signal; some programs return -1, which is 255.
refused() { # STATUS
	(($1 > 0 && $1 < 124 || $1 == 255))
}

running() {
	kill -0 "$1" 2>/dev/null
}

ended() {
	! kill -0 "$1" 2>/dev/null
}

# Does something in the container listen on that TCP port?
listens() { # CONTAINER PORT
	local pid port family address state
	read -r pid <"$FF_LAB/$1/pid"
	printf -v port %04X "$2"
	for family in tcp tcp6; do
		while read -r _ address _ state _; do
			[[ $state != 0A || $address != *:$port ]] || return 0
		done <"/proc/$pid/net/$family"
	done 2>/dev/null
	return 1
}

# Starts PROGRAM in a container and waits until it listens; its job is $SERVER_JOB.
server() { # CONTAINER PROGRAM ARGS...
	local c=$1
	shift
	((++PORT))
	"$LAB" exec "$c" -- "$@" -p $PORT >"$OUT/server" 2>&1 </dev/null &
	SERVER_JOB=$!
	wait_for 60 server_ready "$c" || server_failed "$@"
	running $SERVER_JOB || server_failed "$@"
}

server_ready() {
	listens "$1" $PORT || ended "$SERVER_JOB"
}

server_failed() {
	cat "$OUT/server"
	fail "the server did not start: $*"
}

# pair SERVER CLIENT PROGRAM ARGS...: PROGRAM ARGS in SERVER, then PROGRAM ARGS SERVER in CLIENT.
# Both have to end with 0 and to report no error; what they print is in $OUT/server and
# $OUT/client.
pair() {
	local s=$1 c=$2 status server_status start=${EPOCHREALTIME/./}
	shift 2
	step "$* ($c to $s)"
	server "$s" "$@"
	timeout "${PAIR_TIMEOUT:-180}" "$LAB" exec "$c" -- "$@" -p $PORT "$s" \
		>"$OUT/client" 2>&1 </dev/null
	status=$?
	((status == 0)) || kill "$SERVER_JOB" 2>/dev/null
	wait "$SERVER_JOB"
	server_status=$?
	if ((status || server_status)) || complaint "$OUT/client" || complaint "$OUT/server"; then
		sed 's/^/  client: /' "$OUT/client"
		sed 's/^/  server: /' "$OUT/server"
		fail "$*: client ended with $status, server with $server_status"
	fi
	printf '   %d ms\n' $(((${EPOCHREALTIME/./} - start) / 1000))
}

complaint() {
	grep -iE "error|fail|couldn't|unable|invalid|not supported" "$1" | grep -v 'ERROR Summary'
}

# ---- counters ----------------------------------------------------------------------------------

# A container's numbers, as `ffctl stats` of its host tells them: counters of its traffic or counts of its
# objects (sessions, qps, mrs ...).
counter() { # CONTAINER NAME...
	local host
	read -r host <"$FF_LAB/$1/host"
	"$LAB" ffctl "$host" -- --json stats "$1" | awk -v names="${*:2}" -f "$TREE/tests/rig/shell/numbers.awk"
}

# From here on PROGRAM runs between B and A, and that counter of B goes up; B's job is $CLIENT_JOB.
traffic() { # COUNTER PROGRAM ARGS...
	local counter=$1
	shift
	server "$A" "$@"
	"$LAB" exec "$B" -- "$@" -p $PORT "$A" >"$OUT/client" 2>&1 &
	# shellcheck disable=SC2034 # the test's
	CLIENT_JOB=$!
	wait_for 60 counted_past "$B" "$counter" 100 || fail "no traffic: $(<"$OUT/client")"
}

counted_past() { # CONTAINER COUNTER NUMBER
	(($(counter "$1" "$2") > $3))
}

# ---- perftest's output -------------------------------------------------------------------------

# The client's report has a line for each SIZE in this order, each with ITERS and a number in every other column. The
# numbers may be 0, inf or nan: perftest rounds, and finds no clock rate on a busy machine. Then it says so, perhaps
# in the middle of a line.
perftest_report() { # NAME MIN-COLUMNS ITERS SIZE...
	local name=$1 columns=$2 iters=$3
	shift 3
	awk -v iters="$iters" -v sizes="$*" -v columns="$columns" '
		BEGIN { n = split(sizes, want, " ") }
		{ sub(/Correlation coefficient.*/, "") }
		/^[ \t]*[0-9]+[ \t]+[0-9]+([ \t]+([0-9.]+|inf|-?nan))+[ \t]*$/ {
			i++
			if ($1 != want[i] || $2 != iters || NF < columns)
				bad = bad "\n" $0
		}
		END {
			if (i != n)
				bad = bad "\n" i + 0 " lines, not " n
			if (bad)
				print "bad report:" bad
			exit bad != ""
		}' "$OUT/client" || {
		cat "$OUT/client"
		fail "$name report"
	}
}

bandwidth() { # ITERS SIZE...
	perftest_report bandwidth 5 "$@"
}

latency() { # ITERS SIZE...
	perftest_report latency 9 "$@"
}

# 2, 4, 8 ... up to 2^N: what -a runs.
powers() {
	local i
	for ((i = 1; i <= $1; i++)); do
		echo $((1 << i))
	done
}
