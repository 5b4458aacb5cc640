#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# timeout: 300
# sandbox.sh - what the processes of a router that works, and their threads, have left, as the kernel
# tells it; that clients of any user are served with that; which of them may die; and the daemon ffo
# likewise.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 2

# Capabilities by number.
DAC_OVERRIDE=1 SYS_PTRACE=19 SYS_NICE=23 SYS_RESOURCE=24 CHECKPOINT_RESTORE=40
KEEPER=$((1 << DAC_OVERRIDE | 1 << SYS_PTRACE | 1 << CHECKPOINT_RESTORE))
# Where the limit cannot be raised that does as well.
FAST=$((1 << SYS_NICE))
! (ulimit -Hr 1) 2>/dev/null || FAST=0
may=0 # of a process: its bounding set
ROUTER_USER=60999
MINE=$((16#$(awk '/^CapPrm/ { print $2 }' /proc/self/status)))

word() { # STATUS-FILE NAME
	awk -v n="$2:" '$1 == n { print $2 }' "$1"
}

caps() { # STATUS-FILE NAME
	echo $((16#$(word "$1" "$2")))
}

# confined FILE CAPABILITIES...: that thread has one of these sets.
confined() {
	local file=$1 set has
	shift
	[[ $(word "$file" NoNewPrivs) == 1 ]] || fail "$file: NoNewPrivs is not set"
	[[ $(word "$file" Seccomp) == 2 ]] || fail "$file: no filter"
	(($(caps "$file" CapInh) == 0 && $(caps "$file" CapAmb) == 0)) ||
		fail "$file: inheritable or ambient capabilities"
	(((16#$(word "$file" CapBnd) & ~may) == 0)) ||
		fail "$file: bounding set $(word "$file" CapBnd)"
	has=$(caps "$file" CapEff)
	((has == $(caps "$file" CapPrm))) || fail "$file: CapPrm is not CapEff"
	for set in "$@"; do
		((has != (set & MINE))) || return 0
	done
	fail "$file: CapEff $(word "$file" CapEff)"
}

threads_confined() {
	local task kinds=
	[[ $(awk '/^[UG]id:/ { $1 = ""; print } /^Groups:/ && NF > 1' "/proc/$1/status" | sort -u) == \
		" $ROUTER_USER $ROUTER_USER $ROUTER_USER $ROUTER_USER" ]] || fail "not a user of its own"
	for task in ipc uts net; do
		[[ $(readlink "/proc/$1/ns/$task") != $(readlink "/proc/$first/ns/$task") ]] ||
			fail "the $task namespace is its parent's"
	done
	for task in "/proc/$1/task/"*; do
		if [[ ${task##*/} == "$1" ]]; then
			confined "$task/status" 0
		else
			confined "$task/status" $FAST 0
			kinds+=" $(caps "$task/status" CapEff)"
		fi
	done
	# the runner and its watcher; the store
	[[ $kinds == *" $((FAST & MINE))"* && $kinds == *" 0"* ]] || fail "kinds of threads:$kinds"
}

# The keeper, the nursery, the router and the process for orphans are all the children that there are.
keeper_confined() {
	local keeper opener orphans task may=$KEEPER
	keeper=$(pgrep -P "$1" -x ffr-keeper) || fail "no keeper"
	orphans=$(pgrep -P "$1" -x ffr-orphans) || fail "no process for orphans"
	pgrep -P "$1" -x ffr-nursery >/dev/null || fail "no nursery"
	[[ $(pgrep -c -P "$1") == 4 ]] || fail "other children: $(pgrep -l -P "$1")"
	! pgrep -P "$router" || fail "the router has children"
	[[ $(find "/proc/$orphans/fd" -lname 'socket:*' | wc -l) == 1 ]] || fail "orphans: $(ls -l "/proc/$orphans/fd")"
	[[ $(awk '/^[UG]id:/ { $1 = ""; print } /^Groups:/ && NF > 1' "/proc/$orphans/status" | sort -u) == \
		" $ROUTER_USER $ROUTER_USER $ROUTER_USER $ROUTER_USER" ]] || fail "orphans: not a user of its own"
	may=0 confined "/proc/$orphans/status" 0
	[[ $(find "/proc/$keeper/task" -mindepth 1 -maxdepth 1 | wc -l) == 1 ]] || fail "keeper: threads"
	confined "/proc/$keeper/status" "$KEEPER"
	opener=$(pgrep -P "$keeper") || fail "no opener"
	[[ $(<"/proc/$opener/comm") == ffr-opener ]] || fail "a child of the keeper: $(<"/proc/$opener/comm")"
	for task in "$keeper" "$opener"; do
		[[ $(awk '/^[UG]id:/ { $1 = ""; print } /^Groups:/ && NF > 1' "/proc/$task/status" | sort -u) == \
			" $ROUTER_USER $ROUTER_USER $ROUTER_USER $ROUTER_USER" ]] || fail "keeper or opener: not a user of its own"
	done
	[[ $(find "/proc/$opener/task" -mindepth 1 -maxdepth 1 | wc -l) == 1 ]] || fail "opener: threads"
	confined "/proc/$opener/status" $((1 << DAC_OVERRIDE))
	[[ $(find "/proc/$opener/fd" -lname 'socket:*' | wc -l) == 1 ]] || fail "opener: $(ls -l "/proc/$opener/fd")"
}

# The processes of the router that runs.
look() {
	first=$(<"$OWN_LAB/h0/ffr.pid")
	router=$(pgrep -P "$first" -x ffr) || return
}

look || fail "no router"
step "a router that has just started"
threads_confined "$router"
keeper_confined "$first"
[[ ! -s /proc/$router/net/fib_trie ]] || ! grep -q 'LOCAL' "/proc/$router/net/fib_trie" ||
	fail "it has addresses"

step "its files are root's no more, and others' never"
[[ -z $(find "$OWN_LAB/h0/run" ! -user $ROUTER_USER) ]] || fail "$(find "$OWN_LAB/h0/run" -ls)"
[[ $(stat -c %a "$OWN_LAB/h0/run/containers") == 700 ]] || fail "the containers' folder is open"

step "under load, with large segments to give back"
pair h0c0 h0c1 ib_write_bw -F -n 20 -s 16777216
bandwidth 20 16777216
pair h0c0 h0c1 ib_send_lat -F -n 1000
threads_confined "$router"
keeper_confined "$first"

step "programs of another user"
for program in verbs_memory verbs_mr verbs_rc; do
	timeout 180 "$LAB" exec h0c0 -- setpriv --reuid 1000 --regid 1000 --clear-groups \
		"$BUILD/tests/system/$program" >"$OUT/user" 2>&1 ||
		fail "$program of user 1000: $(tail "$OUT/user")"
done

# A router may be started again when it has lived for a time (ffr/keeper/parent.c).
old_enough() {
	(($(date +%s) - $(stat -c %Y "/proc/$router") > 3))
}

# Nobody is let in while it stands still: a program that comes then is served by the next router.
step "a router that dies, with a program at the door"
wait_for 60 old_enough || fail "its age"
before=$router
kill -STOP "$router"
timeout 180 "$LAB" exec h0c0 -- "$BUILD/tests/system/verbs_rc" >"$OUT/door" 2>&1 &
door=$!
at_the_door() {
	local pid
	pid=$(pgrep -nx verbs_rc) && find "/proc/$pid/fd" -lname 'socket:*' | grep >/dev/null .
}
wait_for 60 at_the_door || fail "nobody comes"
kill -KILL "$router"
another() {
	look && [[ $router != "$before" ]] && "$LAB" ffctl h0 -- ping >/dev/null 2>&1
}
wait_for 60 another || fail "it is not started again: $(tail -n 5 "$OWN_LAB/h0/ffr.log")"
grep -q 'ended by signal 9 (Killed): starting it again' "$OWN_LAB/h0/ffr.log" || fail "the log"
wait $door || fail "who waited is not served: $(cat "$OUT/door")"
threads_confined "$router"
keeper_confined "$first"
pair h0c0 h0c1 ib_send_lat -F -n 1000

step "a keeper that ends"
pkill -KILL -P "$first" -x ffr-keeper
wait_for 60 sh -c "! kill -0 $first 2>/dev/null" || fail "the router goes on without its keeper"
! kill -0 "$router" 2>/dev/null || fail "the router outlives its parent"
grep -q 'the keeper has ended' "$OWN_LAB/h0/ffr.log" || fail "the log does not say so"
"$LAB" restart router h0 || fail "restart"
pair h0c0 h0c1 ib_send_lat -F -n 1000

step "an opener that ends"
look
keeper=$(pgrep -P "$first" -x ffr-keeper)
pkill -KILL -P "$keeper" -x ffr-opener
# The keeper notices when it needs the opener.
timeout 180 "$LAB" exec h0c0 -- "$BUILD/tests/system/verbs_rc" >"$OUT/orphan" 2>&1 || true
wait_for 60 sh -c "! kill -0 $first 2>/dev/null" || fail "the router goes on without its opener"
grep -q "the keeper's opener has ended" "$OWN_LAB/h0/ffr.log" || fail "the log does not say so"
"$LAB" restart router h0 || fail "restart"
pair h0c0 h0c1 ib_send_lat -F -n 1000

step "a parent that ends"
look
kill -KILL "$first"
wait_for 60 sh -c "! kill -0 $router 2>/dev/null" ||
	fail "the router outlives its parent"
"$LAB" restart router h0 || fail "restart"

step "sandbox = off"
echo 'sandbox = off' >>"$OWN_LAB/h0/ffr.conf"
"$LAB" restart router h0 || fail "restart"
router=$(<"$OWN_LAB/h0/ffr.pid")
[[ $(word "/proc/$router/status" Seccomp) == 0 ]] || fail "there is a filter"
! pgrep -P "$router" || fail "there are other processes"
grep -q 'sandbox = off: ' "$OWN_LAB/h0/ffr.log" || fail "the log does not say so"

step "the daemon ffo"
"$BUILD/bin/ffo" --store "$OUT/ffo.db" --listen "unix:$OUT/ffo.sock" 2>"$OUT/ffo.log" &
ffo=$!
wait_for 60 grep -qs 'ready: ' "$OUT/ffo.log" || fail "ffo: $(cat "$OUT/ffo.log")"
may=$((1 << SYS_NICE | 1 << SYS_RESOURCE)) # a router without a user of its own keeps these
confined "/proc/$ffo/status" 0
kill $ffo
wait $ffo || fail "ffo ended with $?: $(cat "$OUT/ffo.log")"
! grep 'may not call' "$OUT/ffo.log" || fail "ffo's sandbox refused a call"
[[ ! -e $OUT/ffo.sock ]] || fail "ffo left its socket"
exit 0
