#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 120
# engines: netns
# sanitized: no
# sandbox.sh - what the threads of a router that works have left, as the kernel tells it; that clients
# of any user are served with that; and the daemon ffo likewise.
. "$(dirname "$0")/../lib/lab.sh"
own_lab --containers 2

# Capabilities by number.
DAC_OVERRIDE=1 SYS_PTRACE=19 SYS_NICE=23 SYS_RESOURCE=24 CHECKPOINT_RESTORE=40
CONTROL=$((1 << SYS_RESOURCE))
KEEPER=$((1 << DAC_OVERRIDE | 1 << SYS_PTRACE | 1 << CHECKPOINT_RESTORE))
FAST=$((1 << SYS_NICE))
may=$((CONTROL | FAST)) # of a process: its bounding set
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
	for task in "/proc/$1/task/"*; do
		if [[ ${task##*/} == "$1" ]]; then
			confined "$task/status" $CONTROL
		else
			confined "$task/status" $FAST 0
			kinds+=" $(caps "$task/status" CapEff)"
		fi
	done
	# the runner and its watcher; the store
	[[ $kinds == *" $((FAST & MINE))"* && $kinds == *" 0"* ]] || fail "kinds of threads:$kinds"
}

# The keeper is the only child that a router has.
keeper_confined() {
	local keeper may=$KEEPER
	keeper=$(pgrep -P "$1" -x ffr-keeper) || fail "no keeper"
	[[ $(pgrep -c -P "$1") == 1 ]] || fail "other children: $(pgrep -l -P "$1")"
	[[ $(find "/proc/$keeper/task" -mindepth 1 -maxdepth 1 | wc -l) == 1 ]] || fail "keeper: threads"
	confined "/proc/$keeper/status" "$KEEPER"
}

router=$(<"$OWN_LAB/h0/ffr.pid")
step "a router that has just started"
threads_confined "$router"
keeper_confined "$router"

step "under load, with large segments to give back"
pair h0c0 h0c1 ib_write_bw -F -n 20 -s 16777216
bandwidth 20 16777216
pair h0c0 h0c1 ib_send_lat -F -n 1000
threads_confined "$router"
keeper_confined "$router"

step "programs of another user"
for program in verbs_memory verbs_mr verbs_rc; do
	timeout 60 "$LAB" exec h0c0 -- setpriv --reuid 1000 --regid 1000 --clear-groups \
		"$BUILD/tests/system/$program" >"$OUT/user" 2>&1 ||
		fail "$program of user 1000: $(tail "$OUT/user")"
done

step "a keeper that ends"
pkill -KILL -P "$router" -x ffr-keeper
until_true 10 sh -c "! kill -0 $router 2>/dev/null" || fail "the router goes on without its keeper"
grep -q 'the keeper has ended' "$OWN_LAB/h0/ffr.log" || fail "the log does not say so"
"$LAB" restart router h0 || fail "restart"
pair h0c0 h0c1 ib_send_lat -F -n 1000

step "sandbox = off"
echo 'sandbox = off' >>"$OWN_LAB/h0/ffr.conf"
"$LAB" restart router h0 || fail "restart"
router=$(<"$OWN_LAB/h0/ffr.pid")
[[ $(word "/proc/$router/status" Seccomp) == 0 ]] || fail "there is a filter"
grep -q 'sandbox = off: ' "$OWN_LAB/h0/ffr.log" || fail "the log does not say so"

step "the daemon ffo"
"$BUILD/bin/ffo" --store "$OUT/ffo.db" --listen "unix:$OUT/ffo.sock" 2>"$OUT/ffo.log" &
ffo=$!
until_true 10 grep -qs 'ready: ' "$OUT/ffo.log" || fail "ffo: $(cat "$OUT/ffo.log")"
confined "/proc/$ffo/status" 0
kill $ffo
wait $ffo || fail "ffo ended with $?: $(cat "$OUT/ffo.log")"
! grep 'may not call' "$OUT/ffo.log" || fail "ffo's sandbox refused a call"
[[ ! -e $OUT/ffo.sock ]] || fail "ffo left its socket"
exit 0
