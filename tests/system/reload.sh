#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: system-san
# timeout: 300
# reload.sh - SIGHUP: the router reads its configuration again, what can take effect does, a mistake changes nothing, and
# neither router nor orchestrator ends by it, whenever it comes; and ffr --check.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 1

conf=$OWN_LAB/h0/ffr.conf log=$OWN_LAB/h0/ffr.log
cp "$conf" "$OUT/good"
first=$(<"$OWN_LAB/h0/ffr.pid")
router=$(<"$OWN_LAB/h0/router.pid")

lines() { # PATTERN: in the log
	grep -c -E -- "$1" "$log"
}

more() { # PATTERN COUNT: lines than that
	(($(lines "$1") > $2))
}

# reload PATTERN [LINE...]: with the configuration of the start and these lines; until the log has a further line like that.
reload() {
	local pattern=$1 before
	shift
	before=$(lines "$pattern")
	{
		cat "$OUT/good"
		printf '%s\n' "$@"
	} >"$conf"
	kill -HUP "$first"
	wait_for 30 more "$pattern" "$before" || fail "no line like $pattern: $(tail -n 5 "$log")"
	[[ $(pgrep -P "$first" -x ffr) == "$router" ]] || fail "the router is another one"
}

max_qp() {
	inside h0c0 ibv_devinfo -v | awk '$1 == "max_qp:" { print $2 }'
}

step "what takes effect"
own=$(max_qp)
reload 'new in force: log_level, metrics, limits, defaults$' 'log_level = debug' "metrics = \"unix:$OWN_LAB/h0/run/m.sock\"" \
	'limits {' '	max_qp = 100' '}' 'defaults {' '	max_mr = 7' '}'
[[ $(max_qp) == 100 ]] || fail "max_qp is $(max_qp)"
[[ ! -e $OWN_LAB/h0/metrics.sock ]] || fail "metrics are at the old place, too"
python3 "$TREE/tests/rig/tools/prom.py" "$OWN_LAB/h0/run/m.sock" "$TREE/deploy/grafana/freeflow.json" >"$OUT/samples" ||
	fail "no metrics: $(<"$OUT/samples")"

step "a mistake"
number=$(($(wc -l <"$OUT/good") + 3))
reload "error: $conf:$number: no such option 'log_levl'; the configuration stays as it was" \
	'' 'limits {}' 'log_levl = info'
[[ $(max_qp) == 100 ]] || fail "max_qp is $(max_qp)"
rm "$conf"
mkdir "$conf"
before=$(lines 'stays as it was')
kill -HUP "$first"
wait_for 30 more 'stays as it was' "$before" || fail "no word of a folder: $(tail -n 3 "$log")"
rmdir "$conf"

step "what needs a restart"
reload 'warning: configuration: .*restart ffr`: mode, pools$' 'mode = socket' 'pools = { "10.9.0.0/16" }'
[[ $(max_qp) == "$own" ]] || fail "max_qp is $(max_qp), and was $own"
reload 'warning: configuration: .*restart ffr`: metrics$' 'metrics = "tcp:127.0.0.1:9790"'

step "a router that dies while the file has a mistake"
old_enough() {
	(($(date +%s) - $(stat -c %Y "/proc/$router") > 3))
}
reload 'new in force: limits' 'limits {' '	max_qp = 50' '}'
reload 'stays as it was' 'nonsense'
wait_for 30 old_enough || fail "its age"
kill -KILL "$router"
another() {
	local now
	now=$(pgrep -P "$first" -x ffr) && [[ $now != "$router" ]] && "$LAB" ffctl h0 -- ping >/dev/null 2>&1
}
wait_for 30 another || fail "it is not started again: $(tail -n 5 "$log")"
router=$(pgrep -P "$first" -x ffr)
[[ $(max_qp) == 50 ]] || fail "max_qp is $(max_qp)"

step "all its processes at once, often"
for ((i = 0; i < 50; i++)); do
	# shellcheck disable=SC2046 # a list
	kill -HUP "$first" $(pgrep -P "$first")
done
reload 'new in force: limits' 'limits {' '	max_qp = 40' '}'
[[ $(max_qp) == 40 ]] || fail "max_qp is $(max_qp)"
[[ $(pgrep -c -P "$first") == 4 ]] || fail "processes: $(pgrep -l -P "$first")"

# hup_from_the_start SIGNALS CMD...: that many from its first instant on; it is ready, and ends by SIGTERM with 0.
hup_from_the_start() {
	local n=$1 pid i
	shift
	# The command begins as a shell, which SIGHUP would end.
	python3 -c 'import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
os.execv(sys.argv[1], sys.argv[1:])' "$@" >"$OUT/log" 2>&1 &
	pid=$!
	for ((i = 0; i < n; i++)); do
		kill -HUP "$pid" || fail "it ended: $(<"$OUT/log")"
		sleep 0.01
	done
	wait_for 30 grep -q 'ready: ' "$OUT/log" || fail "not ready: $(<"$OUT/log")"
	kill -HUP "$pid"
	kill "$pid"
	for ((i = 0; i < 50; i++)); do
		kill -HUP "$pid" 2>/dev/null
	done
	wait "$pid" || fail "it ended with $?: $(<"$OUT/log")"
	! grep 'may not call' "$OUT/log" || fail "the sandbox refused a call"
}

for sandbox in on off; do
	step "before it is ready, and while it ends: sandbox = $sandbox"
	printf 'runtime_dir = "%s"\nsandbox = %s\n' "$OUT/run" $sandbox >"$OUT/ffr.conf"
	hup_from_the_start 40 "$BUILD/bin/ffr" --config "$OUT/ffr.conf"
	grep -q 'configuration: read again' "$OUT/log" || fail "it was not read again: $(<"$OUT/log")"
done

step "the orchestrator"
hup_from_the_start 40 "$BUILD/bin/ffo" --store "$OUT/ffo.db" --listen "unix:$OUT/ffo.sock"
grep -q 'certificates .* are looked at' "$OUT/log" || fail "not a line: $(<"$OUT/log")"

step "ffr --check"
"$BUILD/bin/ffr" --check "$OUT/ffr.conf" >"$OUT/said" 2>&1 || fail "status $?: $(<"$OUT/said")"
[[ $(<"$OUT/said") == "$OUT/ffr.conf: no mistake" ]] || fail "$(<"$OUT/said")"
echo 'log_levl = debug' >>"$OUT/ffr.conf"
for args in "--check $OUT/ffr.conf" "--config $OUT/ffr.conf --check"; do
	# shellcheck disable=SC2086 # a list
	"$BUILD/bin/ffr" $args >"$OUT/said" 2>&1
	(($? == 2)) || fail "$args: $(<"$OUT/said")"
	[[ $(<"$OUT/said") == "ffr: $OUT/ffr.conf:3: no such option 'log_levl'" ]] || fail "$(<"$OUT/said")"
done
exit 0
