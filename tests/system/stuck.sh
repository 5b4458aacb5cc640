#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# stuck.sh - what could make a router stand still: too few descriptors, a log that nobody reads. And ffctl with a router
# that does stand still.
# test: netns
. "$(dirname "$0")/../rig/shell/lab.sh"

D=$OUT/router
mkdir "$D"
cat >"$D/ffr.conf" <<-CONF
	runtime_dir = "$D/run"
	admin_socket = "$D/admin.sock"
	hostname = "stuck"
	store = "$D/ffo.db"
	pools = { "10.64.0.0/16" }
	metrics = "unix:$D/metrics"
	user = "60999:60999"
CONF
mkdir "$D/run"
chown 60999:60999 "$D" "$D/run"

ctl() {
	timeout 30 "$BUILD/bin/ffctl" --admin "$D/admin.sock" "$@"
}

answers() {
	ctl ping >/dev/null 2>&1
}

# start PREFIX...: a router, started with that; its processes are $PARENT and $ROUTER.
start() {
	"$@" "$BUILD/bin/ffr" --config "$D/ffr.conf" 2>>"$D/log" &
	PARENT=$!
	wait_for 30 answers || fail "no answer: $(tail "$D/log")"
	ROUTER=$(pgrep -P $PARENT -x ffr)
}

stop() {
	kill $PARENT
	wait_for 30 ended $PARENT || fail "it ignores SIGTERM: $(tail "$D/log")"
	wait $PARENT || fail "it ended with $?: $(tail "$D/log")"
}

ticks() {
	awk '{ print $14 + $15 }' "/proc/$ROUTER/stat"
}

step "a router with too few descriptors for its containers"
limit=256
start prlimit --nofile=$limit:$limit
for ((i = 1; i < 200; i++)); do
	ctl container add c$i >/dev/null 2>"$OUT/err" || break
done
grep -q 'Too many open files' "$OUT/err" || fail "$i containers: $(cat "$OUT/err")"
stop
((limit -= 30))
start prlimit --nofile=$limit:$limit
grep 'Too many open files' "$D/log" >/dev/null || fail "not in the log: $(cat "$D/log")"
exec {metrics}< <(timeout 30 curl -s --unix-socket "$D/metrics" http://h/metrics)
before=$(ticks)
nap 2
(($(ticks) - before < 100)) || fail "it spins: $(($(ticks) - before)) ticks in 2 s"
for j in 1 2 3 4 5 6 7 8 9 10; do
	ctl container rm c$j || fail "rm"
done
ctl container list >"$OUT/list" || fail "list"
ctl container add new >/dev/null || fail "with room again"
grep freeflow_ <&"$metrics" >/dev/null || fail "no metrics with room again"
stop

step "a log that nobody reads"
mkfifo "$D/fifo"
exec {reader}<>"$D/fifo"
"$BUILD/bin/ffr" --config "$D/ffr.conf" 2>"$D/fifo" &
PARENT=$!
wait_for 30 answers || fail "no answer"
ROUTER=$(pgrep -P $PARENT -x ffr)
timeout 1 cat /dev/zero >"$D/fifo" # until it is full
ctl container rm new || fail "rm"
ctl container add new >/dev/null || fail "add"
nap 2.5 # a router that dies earlier is not started again
kill -9 "$ROUTER"
wait_for 30 answers || fail "no router after SIGKILL: the parent is in $(cat /proc/$PARENT/wchan)"
timeout 1 cat <&"$reader" >/dev/null

step "ffctl and a router that is stopped"
ROUTER=$(pgrep -P $PARENT -x ffr)
kill -STOP "$ROUTER"
for ((i = 0; i < 20; i++)); do # more than the socket's queue has room for: connecting waits, too
	ctl --timeout 1 ping >"$OUT/late$i" 2>&1 &
	late[i]=$!
done
for ((i = 0; i < 20; i++)); do
	wait "${late[i]}"
	(($? == 3)) || fail "ffctl: not status 3: $(cat "$OUT/late$i")"
	grep 'admin.sock: no answer within 1 s' "$OUT/late$i" >/dev/null || fail "ffctl: $(cat "$OUT/late$i")"
done
kill -CONT "$ROUTER"
wait_for 30 answers || fail "it does not go on"

step "a router that dies soon after its start"
others=" $(pgrep -P $PARENT -x 'ffr-keeper|ffr-orphans|ffr-nursery' | tr '\n' ' ')"
killed() {
	local pid
	for pid in $(pgrep -P "$PARENT"); do
		[[ $others == *" $pid "* ]] || kill -9 "$pid"
	done
	ended "$PARENT"
}
wait_for 30 killed || fail "the parent goes on"
timeout 1 cat <&"$reader" >"$OUT/told"
grep 'log: [0-9]* lines were lost' "$OUT/told" >/dev/null || fail "lost lines are not told: $(cat "$OUT/told")"
grep 'signal 9 .*not started again' "$OUT/told" >/dev/null || fail "not told: $(cat "$OUT/told")"
exit 0
