#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# lab.sh - the lab itself: exit status, input, signals, names, a second lab beside the first, and that
# down leaves nothing behind, even of a lab that was killed.
# test: netns
# all: docker
. "$(dirname "$0")/../rig/shell/lab.sh"

step "exec passes the status, the input and the signals"
inside h0c0 sh -c 'exit 7'
[[ $? == 7 ]] || fail "status"
inside h0c0 no-such-program 2>/dev/null
status=$?
((status == 126 || status == 127)) || fail "a program that is not there: $status"
[[ $(echo word | inside h0c0 cat) == word ]] || fail "input"
"$LAB" exec h0c0 -- sh -c 'trap "echo told; exit 5" TERM; echo up; while :; do sleep 0.05; done' \
	>"$OUT/signal" &
job=$!
wait_for 60 grep -qs up "$OUT/signal" || fail "not started"
kill $job
wait $job
[[ $? == 5 ]] || fail "status after a signal"
grep -qs told "$OUT/signal" || fail "the signal did not arrive"

step "names resolve, and the address is the one that lab ip tells"
ip=$("$LAB" ip h0c1)
inside h0c0 grep -qs "^${ip}[[:space:]].*h0c1" /etc/hosts || fail "h0c1 is not $ip in /etc/hosts"
grep -q "$ip/" <<<"$(inside h0c1 ip -br addr)" || fail "h0c1 does not have $ip"
grep -q "^h0c1 .*$ip .*running" <<<"$("$LAB" ps)" || fail "lab ps"

step "a container sees its own sockets only, and the machine's files are as before"
[[ $(inside h0c0 sh -c "echo /run/freeflow/*") == "/run/freeflow/ffr.sock /run/freeflow/sys" ]] || fail "/run/freeflow"
if [[ $ENGINE == netns ]]; then
	[[ $(inside h0c0 cat /etc/ld.so.preload) == *libibverbs.so.1\ *librdmacm.so.1 ]] || fail "ld.so.preload"
	! grep -qx ffr <<<"$(inside h0c0 sh -c 'cat /proc/[0-9]*/comm')" || fail "it sees the router"
	inside h0c0 sh -c 'echo word >/etc/freeflow-lab-test'
	[[ ! -e /etc/freeflow-lab-test && ! -e /etc/ld.so.preload ]] || fail "/etc is shared"
fi

step "a second lab beside this one"
first=$FF_LAB
own_lab --containers 1
[[ $(inside h0c0 hostname) == h0c0 ]] || fail "the second lab's h0c0"
FF_LAB=$first inside h0c1 true || fail "the first lab is gone"
"$LAB" up 2>/dev/null && fail "up over a lab that is up"
"$LAB" down || fail "down"
[[ -z $(left "$OWN_LAB") ]] || fail "down left: $(left "$OWN_LAB")"
"$LAB" down || fail "down of nothing"
FF_LAB=$first inside h0c1 true || fail "the first lab went with the second"

step "down after a lab whose processes were killed"
FF_LAB=$OWN_LAB
"$LAB" up --engine "$ENGINE" --containers 1 || fail "up"
kill -KILL "$(<"$FF_LAB/h0/ffr.pid")" "$(<"$FF_LAB/h0c0/pid")"
[[ ! -e $FF_LAB/h0/docker/pid ]] || kill -KILL "$(<"$FF_LAB/h0/docker/pid")"
"$LAB" down || fail "down"
[[ -z $(left "$OWN_LAB") ]] || fail "down left: $(left "$OWN_LAB")"
OWN_LAB=
exit 0
