#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# night: netns
# timeout: 1200
# fault_kill.sh - kill -9 of the router in the middle of what it does: at the n-th system call of a
# kind (strace's fault injection), while it starts, attaches, registers and moves messages. Programs
# that have the device open learn it within a second and end with an error; the next router finds
# nothing in its way, cleans up what was left, and serves the same containers.
. "$(dirname "$0")/../rig/shell/lab.sh"
command -v strace >/dev/null || skip "no strace here (make deps)"
own_lab --containers 2
NS=/run/netns/$(basename "$(ip netns list | awk -v p="$(<"$OWN_LAB/h0/ffr.pid")" '{ print $1 }' |
	while read -r n; do ip netns pids "$n" | grep >/dev/null -x "$(<"$OWN_LAB/h0/ffr.pid")" && echo "$n"; done)")

# What a router leaves in the file system, and the shared memory that has a name. Not the sizes: the
# store grows.
things_left() {
	(cd "$OWN_LAB/h0/run" && find . -printf '%y %m %U %p\n' | sort)
	ls /dev/shm
	(cd "$OWN_LAB/h0" && find . -maxdepth 1 ! -name '*log' ! -name '*-wal' ! -name '*pid' ! -name strace |
		sort)
}

# Descriptors and shared mappings of the router, when nobody uses it.
held() {
	local pid
	pid=$(<"$OWN_LAB/h0/router.pid")
	find "/proc/$pid/fd" -mindepth 1 -printf '%l\n' | sed 's/:.*//; s/ (deleted)//; s#^/proc/[0-9/a-z]*/#/proc/#' |
		sort | uniq -c
	grep -c 'memfd:' "/proc/$pid/maps"
}

# The router closes the connection of the last ffctl a moment after that has ended.
holds_as_before() {
	diff "$OUT/held" <(held) >/dev/null
}

# Nobody else may hold what was shared with the dead one: memory goes with its last user.
memfds() {
	local n pid
	for n in "${NS##*/}" "${NS##*/}c0" "${NS##*/}c1"; do
		for pid in $(ip netns pids "$n"); do
			grep -ls 'memfd:freeflow' "/proc/$pid/maps"
		done
	done
}

no_sessions() {
	[[ $(counter h0c0 sessions mrs qps) == "0 0 0" && $(counter h0c1 sessions mrs qps) == "0 0 0" ]]
}

# A router of ours that is killed at call number $2 of $1.
start_doomed() { # CALL N
	local first
	router=
	"$LAB" kill router h0 || fail "kill"
	rm -f "$OWN_LAB/h0/admin.sock"
	nsenter --net="$NS" strace -f -qq -o "$OWN_LAB/h0/strace" -e "trace=$1" \
		-e "inject=$1:signal=KILL:when=$2" \
		"$BUILD/bin/ffr" --config "$OWN_LAB/h0/ffr.conf" >>"$OWN_LAB/h0/ffr.log" 2>&1 </dev/null &
	doomed=$!
	wait_for 20 doomed_answers || return 1
	first=$(pgrep -P $doomed -x ffr) || return 1
	echo "$first" >"$OWN_LAB/h0/ffr.pid"
	router=$(pgrep -P "$first" -x ffr)
}

doomed_answers() {
	ended "$doomed" || "$LAB" ffctl h0 -- ping >/dev/null 2>&1
}

# Its parent may have started another one since.
died() {
	ended "$doomed" || { [[ -n $router ]] && ! kill -0 "$router" 2>/dev/null; }
}

# A pair of programs and an operator's calls, as long as the router lives; none may hang or crash.
use_it() {
	local job
	"$LAB" exec h0c0 -- ibv_asyncwatch >"$OUT/watch" 2>&1 &
	watch=$!
	"$LAB" exec h0c0 -- ibv_rc_pingpong -g 0 -e -n 100000000 -p 19000 >"$OUT/s" 2>&1 &
	jobs_of=($!)
	wait_for 5 server_there || true
	"$LAB" exec h0c1 -- ibv_rc_pingpong -g 0 -e -n 100000000 -p 19000 h0c0 >"$OUT/c" 2>&1 &
	jobs_of+=($!)
	wait_for 5 moved_some || true
	# Sessions come and go with regions of some size until the call is reached.
	for job in 1 2 3 4 5 6; do
		died && break
		timeout 180 "$LAB" exec h0c1 -- "$BUILD/tests/system/verbs_mr" >"$OUT/mr" 2>&1
		(($? < 124)) || fail "verbs_mr: $(cat "$OUT/mr")"
		"$LAB" ffctl h0 -- container add "extra$job" --ip "10.9.9.$job" >/dev/null 2>&1
		"$LAB" ffctl h0 -- container rm "extra$job" >/dev/null 2>&1
	done
	true
}

server_there() {
	listens h0c0 19000 || ended "${jobs_of[0]}"
}

moved_some() {
	died || (($(counter h0c1 send_ops 2>/dev/null || echo 0) > 100))
}

# It may also have been started when the router was gone.
fatal_event() {
	grep -qs 'IBV_EVENT_DEVICE_FATAL\|event_type .*(8)' "$OUT/watch" || ended "$watch"
}

# The client first: a server that no client has reached waits for one, with or without a router.
ends_well() { # JOB FILE
	local status
	if listens h0c0 19000; then
		kill "${jobs_of[0]}"
		wait "${jobs_of[0]}"
	fi
	wait_for 10 ended "$1" || fail "a program is still there: $(cat "$2")"
	wait "$1"
	status=$?
	((status == 0)) || refused $status || fail "a program ended with $status: $(cat "$2")"
}

things_left >"$OUT/before"
wait_for 10 no_sessions || fail "sessions before anything was done"
"$LAB" restart router h0 || fail "restart"
held >"$OUT/held"

deaths=0
for point in openat:30 mkdirat:1 bind:3 fdatasync:2 memfd_create:2 memfd_create:5 accept4:4 \
	sendmsg:30 sendmsg:200 mmap:150 munmap:40 madvise:20 fcntl:100 epoll_ctl:60 \
	unlinkat:3 futex:300 close:400 getsockopt:15; do
	call=${point%:*} n=${point#*:}
	step "killed at call $n of $call"
	jobs_of=() watch=
	if start_doomed "$call" "$n"; then
		use_it
	fi
	if died; then
		((++deaths))
	else
		echo "   did not get there: killed now"
	fi
	ended $doomed || kill -KILL "$(<"$OWN_LAB/h0/ffr.pid")"
	wait $doomed
	if [[ -n $watch ]]; then
		wait_for 1 fatal_event ||
			fail "no fatal event within a second: $(cat "$OUT/watch")"
		kill $watch 2>/dev/null
		wait $watch
		ends_well "${jobs_of[1]}" "$OUT/c"
		! jobs -rp | grep >/dev/null -x "${jobs_of[0]}" || ends_well "${jobs_of[0]}" "$OUT/s"
	fi
	[[ -z $(memfds) ]] || fail "somebody still maps the dead router's memory: $(memfds)"
	rm -f "$OWN_LAB/h0/ffr.pid"
	"$LAB" restart router h0 || fail "restart: $(tail -n 5 "$OWN_LAB/h0/ffr.log")"
	# what was half done with a container of the operator's is his to finish
	for job in 1 2 3 4 5 6; do
		"$LAB" ffctl h0 -- container rm "extra$job" >/dev/null 2>&1
	done
	things_left >"$OUT/after"
	diff "$OUT/before" "$OUT/after" || fail "it left something"
	wait_for 5 no_sessions || fail "sessions of a dead router"
	wait_for 5 holds_as_before || fail "a fresh router holds something else: $(diff "$OUT/held" <(held))"
done
((deaths >= 12)) || fail "only $deaths of the calls were reached"
pair h0c0 h0c1 ib_write_bw -F -n 1000
bandwidth 1000 65536
exit 0
