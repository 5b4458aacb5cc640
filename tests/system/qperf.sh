#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: hosts system-san
# timeout: 300
# qperf.sh - every RDMA test that Debian's qperf has, of one second each, which is the least that it
# measures: between A and B those that sleep for their completions, beside them between C and D those
# that poll. What is reported is looked at, and what the router counted meanwhile.
#
# Debian's is built without XRC. A QP is connected over TCP by the program, or by rdma_cm (-cm1), which
# qperf has for RC only.
. "$(dirname "$0")/../rig/shell/lab.sh"

command -v qperf >/dev/null || skip "no qperf (make deps)"
SECONDS_EACH=1
MESSAGES=20000 # where a number of them can be given

# qperf_server CONTAINER: its log is in $OUT/CONTAINER.
qperf_server() {
	"$LAB" exec "$1" -- qperf -lp $PORT >"$OUT/$1" 2>&1 </dev/null &
	wait_for 60 listens "$1" $PORT || {
		cat "$OUT/$1"
		fail "qperf does not listen in $1"
	}
}

# The sum of a counter over both ends: which one sends is the test's affair.
both() { # SERVER CLIENT NAME
	echo $(($(counter "$1" "$3") + $(counter "$2" "$3")))
}

# figure FILE NAME: the number of a line that qperf -vs prints, without its commas.
figure() {
	awk -v name="$2" '$1 == name && $2 == "=" { gsub(",", "", $3); print $3; exit }' "$1"
}

# qperf SERVER CLIENT TEST OPTIONS...: the figures are there and above zero, no completion had an
# error, and as many messages (or atomics) went through the router as have come.
qperf() {
	local server=$1 client=$2 test=$3 out=$OUT/client.$2 before after name=tx_bytes least came size=1 cut=2
	shift 3
	step "qperf $test $* ($client to $server)"
	[[ $test != *_swap* && $test != *_add* ]] || name=atomic_ops
	before=$(both "$server" "$client" $name)
	timeout 90 "$LAB" exec "$client" -- qperf "$server" -lp $PORT -to 20 -vvs "$@" "$test" \
		>"$out" 2>&1 </dev/null || {
		cat "$out" "$OUT/$server"
		fail "qperf $test ended with $?"
	}
	after=$(both "$server" "$client" $name)
	came=$(figure "$out" recv_msgs)
	came=${came:-$(($(figure "$out" loc_recv_msgs) + $(figure "$out" rem_recv_msgs)))}
	if complaint "$out" || ! grep -qE '(bw|latency|msg_rate) += +[0-9.]+ ' "$out" ||
		grep -qE '_errs|= +0 ' "$out" || ((came == 0)); then
		cat "$out"
		fail "not what qperf $test reports"
	fi
	case $test in # what qperf takes if it is told nothing
	ud_*bw) size=1024 ;;
	*_bw) size=65536 ;;
	esac
	# In the end qperf destroys its QPs with what is outstanding, which may have arrived
	# and is not counted as sent: it counts what it posts.
	[[ $test == *_lat ]] || cut=1024
	least=$(((came > cut ? came - cut : 1) * size))
	((after - before >= least)) || {
		cat "$out"
		fail "the router counted $((after - before)) $name, not $least"
	}
	[[ " $* " != *" -n "* ]] || ((came == MESSAGES)) || fail "$came messages have come, not $MESSAGES"
}

# all SERVER CLIENT OPTIONS...
all() {
	local server=$1 client=$2 test
	shift 2
	for test in rc_bi_bw rc_lat uc_bi_bw uc_bw uc_lat ud_bi_bw ud_bw ud_lat \
		rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat uc_rdma_write_bw \
		uc_rdma_write_lat rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add; do
		qperf "$server" "$client" $test -t $SECONDS_EACH "$@"
	done
	qperf "$server" "$client" rc_bw -n $MESSAGES "$@"
	qperf "$server" "$client" rc_bw -n $MESSAGES -cm1 -ar1 "$@"
}

qperf_server "$A"
qperf_server "$C"
# They poll memory, whatever they are told; the first is connected by rdma_cm.
poll() {
	qperf "$C" "$D" rc_rdma_write_poll_lat -t $SECONDS_EACH -cm1
	qperf "$C" "$D" uc_rdma_write_poll_lat -t $SECONDS_EACH
	all "$C" "$D" -cp1
}
poll >"$OUT/poll" 2>&1 &
pollers=$!
all "$A" "$B"
wait $pollers || {
	cat "$OUT/poll"
	fail "qperf between $C and $D"
}
cat "$OUT/poll"
exit 0
