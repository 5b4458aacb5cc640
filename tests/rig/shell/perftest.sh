# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# perftest.sh - perftest's programs between two containers, with a look at their reports and at what
# the router counted. Sourced by tests/system/perftest_*.sh after lab.sh.
#
# The programs run as ib_VERB_KIND. UD sends at most one MTU; atomics are 8 bytes. Bytes are counted
# by the router on the side that sends: the client, and for reads the server.

VERB=
sender() {
	[[ $VERB == read ]] && echo "$A" || echo "$B"
}

# bw ITERS SIZE OPTIONS...: one size, and the bytes that went through the router are these exactly.
bw() {
	local iters=$1 size=$2 before after want qps=1 words
	shift 2
	words=" $* "
	[[ $words =~ \ -q\ ([0-9]+)\  ]] && qps=${BASH_REMATCH[1]}
	before=$(counter "$(sender)" "$(counted)")
	if [[ $VERB == atomic ]]; then
		pair "$A" "$B" "ib_${VERB}_bw" -F -n "$iters" "$@"
	else
		pair "$A" "$B" "ib_${VERB}_bw" -F -n "$iters" -s "$size" "$@"
	fi
	bandwidth $((iters * qps)) "$size"
	after=$(counter "$(sender)" "$(counted)")
	want=$((size * iters * qps))
	[[ $VERB != atomic ]] || want=$((iters * qps))
	# With -b each side sends as much; for counting the client's is enough.
	((after - before == want)) ||
		fail "the router counted $((after - before)) $(counted), not $want"
}

counted() {
	[[ $VERB == atomic ]] && echo atomic_ops || echo tx_bytes
}

# bw_all ITERS OPTIONS...: every size to 8 MB (-a).
bw_all() {
	local iters=$1
	shift
	pair "$A" "$B" "ib_${VERB}_bw" -F -a -n "$iters" "$@"
	# shellcheck disable=SC2046
	bandwidth "$iters" $(powers 23)
}

# lat ITERS SIZE OPTIONS...
lat() {
	local iters=$1 size=$2 before
	shift 2
	before=$(counter "$(sender)" "$(counted)")
	if [[ $VERB == atomic ]]; then
		pair "$A" "$B" "ib_${VERB}_lat" -F -n "$iters" "$@"
	else
		pair "$A" "$B" "ib_${VERB}_lat" -F -n "$iters" -s "$size" "$@"
	fi
	latency "$iters" "$size"
	(($(counter "$(sender)" "$(counted)") - before >= iters)) ||
		fail "too little went through the router"
}

# perftest measures its clock again for each size, which takes most of the time here: once is enough.
lat_all() {
	local iters=$1
	shift
	((!SANITIZED)) || return 0
	pair "$A" "$B" "ib_${VERB}_lat" -F -a -n "$iters" "$@"
	# shellcheck disable=SC2046
	latency "$iters" $(powers 23)
}

# What send and write do over RC, and over UC in full runs; the options go with the small messages.
usual() { # TYPE [OPTION...]
	local type=$1 once=
	shift
	[[ $type == RC ]] || once=in_full
	$once bw 1000 8 -c "$type" "$@"
	$once bw 200 4096 -c "$type" -q 16 -b
	$once bw 1000 32 -c "$type" -I 64
	$once bw 500 100001 -c "$type" -x 0
	$once lat 1000 8 -c "$type"
	at_night $once bw 1000 65536 -c "$type"
	at_night $once bw 1000 65536 -c "$type" -b
	at_night $once bw 200 65536 -c "$type" -q 16
	at_night in_full bw 1000 1000 -c "$type" -l 8
	at_night in_full bw 1000 4096 -c "$type" --use_old_post_send
	at_night in_full lat 1000 8 -c "$type" -I 64
	at_night in_full lat 1000 4096 -c "$type" --use_old_post_send
	at_night $once lat 20 1048576 -c "$type"
}
