# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# load.sh - the load that verifies itself (tests/system/ffload.c) in the background of a test. Sourced
# after lab.sh.
#
# A pair of sink and client has a name, $LOAD; functions are about that pair. Their logs are $OUT/$LOAD
# (client) and $OUT/$LOAD.sink, the summaries beside them *.json.

FFLOAD=$BUILD/tests/system/ffload
LOAD=load
LOAD_JOB='' SINK_JOB=''
declare -A LOAD_JOBS SINK_JOBS LOAD_PORTS BACK_BEFORE FAILED_BEFORE

# load_use NAME: what follows is about that pair.
load_use() {
	LOAD=$1
	LOAD_JOB=${LOAD_JOBS[$LOAD]-}
	SINK_JOB=${SINK_JOBS[$LOAD]-}
}

# load_server CONTAINER OPTIONS...: a sink there, until it is told to end. After load_server_died it
# listens on the port that the client knows.
load_server() {
	local c=$1
	shift
	if [[ -z ${LOAD_PORTS[$LOAD]-} || -n ${SINK_JOBS[$LOAD]-} ]]; then
		((++PORT))
		LOAD_PORTS[$LOAD]=$PORT
	fi
	: >"$OUT/$LOAD.sink" # the job may be late in making it
	"$LAB" exec "$c" -- "$FFLOAD" --server --json -p "${LOAD_PORTS[$LOAD]}" "$@" \
		>"$OUT/$LOAD.sink.json" 2>"$OUT/$LOAD.sink" </dev/null &
	SINK_JOB=$!
	SINK_JOBS[$LOAD]=$SINK_JOB
	wait_for 60 load_listens || fail "the sink did not start: $(cat "$OUT/$LOAD.sink")"
}

load_listens() {
	grep -q 'listening on' "$OUT/$LOAD.sink"
}

# It was killed, one way or another.
load_server_died() {
	wait "$SINK_JOB" 2>/dev/null
	SINK_JOBS[$LOAD]=
}

# load_client CONTAINER HOST OPTIONS...: traffic to the sink there, until it is told to end or its
# --seconds are over.
load_client() {
	local c=$1 host=$2
	shift 2
	: >"$OUT/$LOAD"
	"$LAB" exec "$c" -- "$FFLOAD" --json -p "${LOAD_PORTS[$LOAD]}" "$@" "$host" \
		>"$OUT/$LOAD.json" 2>"$OUT/$LOAD" </dev/null &
	LOAD_JOB=$!
	LOAD_JOBS[$LOAD]=$LOAD_JOB
}

# What the last line of progress says: operations, lanes that are up, lanes, failures.
load_state() {
	awk '/ progress: / { ops = $3; up = $5; of = $7; failures = $(NF - 1) }
		END { print ops + 0, up + 0, of + 0, failures + 0 }' "$OUT/$LOAD"
}

# load_moves SECONDS: from now on operations are completed, and all lanes are up.
load_moves() {
	local before
	before=$(load_state)
	wait_for "$1" load_moved "${before%% *}" && return
	tail -n 20 "$OUT/$LOAD"
	return 1
}

load_moved() {
	local ops up of failures
	running "$LOAD_JOB" || return 1
	read -r ops up of failures < <(load_state)
	((ops > $1 && up == of && of > 0))
}

# load_mark: the next two count from here on.
load_mark() {
	BACK_BEFORE[$LOAD]=$(grep -c ': back after' "$OUT/$LOAD")
	FAILED_BEFORE[$LOAD]=$(grep -c ' posted$' "$OUT/$LOAD")
}

# So many times has a lane come back.
load_back() { # TIMES
	(($(grep -c ': back after' "$OUT/$LOAD") - ${BACK_BEFORE[$LOAD]-0} >= $1))
}

# load_returns SECONDS TIMES: waits for that.
load_returns() {
	wait_for "$1" load_back "$2" && return
	grep -v progress "$OUT/$LOAD" | tail -n 40
	tail -n 1 "$OUT/$LOAD"
	grep -v progress "$OUT/$LOAD.sink" | tail -n 20
	return 1
}

# So many times has a lane failed.
load_failed() { # TIMES
	(($(grep -c ' posted$' "$OUT/$LOAD") - ${FAILED_BEFORE[$LOAD]-0} >= $1))
}

# A field of the client's summary: load_of NAME [NAME]; sink_of: of the sink's.
load_of() {
	load_field "$OUT/$LOAD.json" "$@"
}

sink_of() {
	load_field "$OUT/$LOAD.sink.json" "$@"
}

load_field() {
	python3 -c 'import json, sys
v = json.load(open(sys.argv[1]))
for k in sys.argv[2:]:
    v = v.get(k, 0)
print(v)' "$@"
}

# load_stop STATUS: ends the client, and looks at what it says.
load_stop() {
	kill "$LOAD_JOB" 2>/dev/null
	load_wait "$1"
}

load_wait() { # STATUS
	local status
	wait "$LOAD_JOB" 2>/dev/null
	status=$?
	((status == $1)) && return
	grep -v progress "$OUT/$LOAD" | tail -n 30
	grep WRONG "$OUT/$LOAD.sink" | tail -n 30
	fail "$LOAD: the client ended with $status: $(cat "$OUT/$LOAD.json")"
}

load_server_stop() { # STATUS
	local status
	kill "$SINK_JOB" 2>/dev/null
	wait "$SINK_JOB"
	status=$?
	SINK_JOBS[$LOAD]=
	((status == $1)) && return
	grep -v progress "$OUT/$LOAD.sink" | tail -n 30
	fail "$LOAD: the sink ended with $status"
}

# Two lines for the log of the test.
load_tell() {
	python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
t = r.get("recovery_ms", {})
print("   %s: %d operations, %.1f MB, %d failures, %d back (median %.0f ms, at most %.0f), %d open, gap %.0f ms"
      % (sys.argv[2], r["total"], r["bytes"] / 1e6, r["failures"], r["recoveries"],
         t.get("median", 0), t.get("max", 0), r["ambiguous"], r["longest_gap_ms"]))
print("   " + ", ".join("%s: %d" % c for c in r["completions"].items()))' "$OUT/$LOAD.json" "$LOAD"
}

# As the router of the other host, or of that one, is told: host_is h0 up|down [ASKED]
host_is() {
	"$LAB" ffctl "${3-h$((1 - ${1#h}))}" -- --json host list 2>/dev/null | python3 -c 'import json, sys
sys.exit(not any(h["name"] == sys.argv[1] and h["up"] == (sys.argv[2] == "up") for h in json.load(sys.stdin)))' "$1" "$2" 2>/dev/null
}

# ---- both ways between two containers ------------------------------------------------------------------

# load_both OPTIONS...: pairs `there` from $A to $B and `back` from $B to $A.
load_both() {
	load_use there
	load_server "$B"
	load_client "$A" "$B" --seconds 0 "$@"
	load_use back
	load_server "$A"
	load_client "$B" "$A" --seconds 0 "$@"
}

# For both of them: load_each FUNCTION ARGS...
load_each() {
	local pair
	for pair in there back; do
		load_use $pair
		"$@" || return 1
	done
}

# Both move, and nothing failed since N failures of each.
load_unharmed() { # N
	local ops up of failures
	load_moves 20 || return 1
	read -r ops up of failures < <(load_state)
	((failures == $1)) && return
	grep -v progress "$OUT/$LOAD" | tail -n 20
	return 1
}

# Ends both, and sees to it that nothing was wrong.
load_both_stop() {
	local pair
	for pair in there back; do
		load_use $pair
		load_stop 0
		load_tell
		load_server_stop 0
	done
}

# load_connects SERVER CLIENT: a short load of its own, over new connections between the two.
load_connects() {
	load_use new
	load_server "$1"
	load_client "$2" "$1" --seconds 1 -q 2 -s 1-65536
	load_wait 0
	load_server_stop 0
}
