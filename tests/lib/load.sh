# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# load.sh - the load that verifies itself (tests/system/ffload.c) in the background of a test. Sourced
# after lab.sh. Its log is $OUT/load, the summary $OUT/load.json; the server's are $OUT/sink*.

FFLOAD=$BUILD/tests/system/ffload
LOAD_JOB="" SINK_JOB=""

# load_server CONTAINER OPTIONS...: a sink there, until it is told to end.
load_server() {
	local c=$1
	shift
	((++PORT))
	: >"$OUT/sink" # the job may be late in making it
	"$LAB" exec "$c" -- "$FFLOAD" --server --json -p "$PORT" "$@" >"$OUT/sink.json" \
		2>"$OUT/sink" </dev/null &
	SINK_JOB=$!
	until_true 20 load_listens || fail "the sink did not start: $(cat "$OUT/sink")"
}

load_listens() {
	grep -q 'listening on' "$OUT/sink"
}

# load_client CONTAINER HOST OPTIONS...: traffic to the sink there, until it is told to end or its
# --seconds are over.
load_client() {
	local c=$1 host=$2
	shift 2
	: >"$OUT/load"
	"$LAB" exec "$c" -- "$FFLOAD" --json -p "$PORT" "$@" "$host" >"$OUT/load.json" \
		2>"$OUT/load" </dev/null &
	LOAD_JOB=$!
}

# What the last line of progress says: operations, lanes that are up, lanes, failures.
load_state() {
	awk '/ progress: / { ops = $3; up = $5; of = $7; failures = $(NF - 1) }
		END { print ops + 0, up + 0, of + 0, failures + 0 }' "$OUT/load"
}

# load_moves SECONDS: from now on operations are completed, and all lanes are up.
load_moves() {
	local before
	before=$(load_state)
	until_true "$1" load_moved "${before%% *}" && return
	tail -n 20 "$OUT/load"
	return 1
}

load_moved() {
	local ops up of rest
	running "$LOAD_JOB" || return 1
	read -r ops up of rest < <(load_state)
	((ops > $1 && up == of && of > 0))
}

# All lanes have failed and come back N times at least, as far as the log tells.
load_back() { # LANES
	(($(grep -c ': back after' "$OUT/load") >= $1))
}

load_stands() {
	local before after
	before=$(load_state)
	sleep 2.5 # two lines of progress
	after=$(load_state)
	[[ ${before%% *} == "${after%% *}" ]]
}

# A field of the summary: load_of load|sink NAME [NAME]
load_of() {
	python3 -c 'import json, sys
v = json.load(open(sys.argv[1]))
for k in sys.argv[2:]:
    v = v.get(k, 0)
print(v)' "$OUT/$1.json" "${@:2}"
}

# load_stop [STATUS]: ends the client, and looks at what it says.
load_stop() {
	kill "$LOAD_JOB" 2>/dev/null
	load_wait "$@"
}

load_wait() { # [STATUS]
	local status
	wait "$LOAD_JOB"
	status=$?
	((status == ${1:-0})) && return
	grep -v progress "$OUT/load" | tail -n 30
	grep WRONG "$OUT/sink" | tail -n 30
	fail "the load ended with $status: $(cat "$OUT/load.json")"
}

load_server_stop() { # [STATUS]
	local status
	kill "$SINK_JOB" 2>/dev/null
	wait "$SINK_JOB"
	status=$?
	((status == ${1:-0})) && return
	grep -v progress "$OUT/sink" | tail -n 30
	fail "the sink ended with $status"
}

# One line for the log of the test.
load_tell() {
	python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
t = r.get("recovery_ms", {})
print("   %d operations, %.1f MB, %d failures, %d back (median %.0f ms, at most %.0f), %d open, gap %.0f ms"
      % (r["total"], r["bytes"] / 1e6, r["failures"], r["recoveries"], t.get("median", 0),
         t.get("max", 0), r["ambiguous"], r["longest_gap_ms"]))
print("   " + ", ".join("%s: %d" % c for c in r["completions"].items()))' "$OUT/load.json"
}
