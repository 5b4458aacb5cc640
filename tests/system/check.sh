#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# check.sh - programs that get no word from the library, since they never load it: ffctl container show says that
# nobody has opened the device, and ffctl container check says why a process has not.
# test: netns
. "$(dirname "$0")/../rig/shell/lab.sh"

own_lab --containers 2

# has TEXT REGEX: a line of the text.
has() {
	grep -Eqs -- "$2" <<<"$1" || fail "no '$2' in: $1"
}

compile() { # NAME FLAG...
	local name=$1
	shift
	echo 'int pause(void); int main(void) { for (;;) pause(); }' |
		"${CC:-gcc}" -x c "$@" -o "$OUT/$name" - || skip "no $name program can be made: $*"
}

# check NAME CMD...: what is said of that program, of that name, in h0c0.
check() {
	local name=$1 job pid
	shift
	inside h0c0 "$@" &
	job=$!
	wait_for 60 pgrep -n -f "^$OUT/$name" >/dev/null || fail "$* does not run"
	pid=$(pgrep -n -f "^$OUT/$name")
	said=$(router_ctl container check h0c0 --pid "$pid")
	status=$?
	kill "$pid"
	wait $job
}

problem() { # REGEX: that is one
	has "$said" "^PROBLEM +.*$1"
	((status == 1)) || fail "status $status"
}

compile dynamic
compile static -static
compile static-pie -static-pie
# Its name is what counts: musl need not be here.
ln -s /lib64/ld-linux-x86-64.so.2 "$OUT/ld-musl-x86_64.so.1"
compile musl -Wl,--dynamic-linker="$OUT/ld-musl-x86_64.so.1"

# Programs with rdma-core in themselves, and with a library for one kind of NIC.
archive=$("${CC:-gcc}" -print-file-name=libibverbs.a) direct=$("${CC:-gcc}" -print-file-name=libmlx5.so)
verbs='#include <infiniband/verbs.h>
int pause(void); int main(void) { for (ibv_get_device_list(0); ; ) pause(); }'
[[ $archive == /* ]] && "${CC:-gcc}" -x c -o "$OUT/inside" - -x none "$archive" -lnl-3 -lnl-route-3 -ldl <<<"$verbs" || archive=
[[ $direct == /* ]] && "${CC:-gcc}" -x c -o "$OUT/direct" - -Wl,--no-as-needed -libverbs -lmlx5 <<<"$verbs" || direct=

step "nobody has opened the device yet"
has "$(router_ctl container show h0c0)" '^opened +never .* ffctl container check h0c0 --pid'

step "what it is linked with"
check static "$OUT/static"
problem "linked statically"
check static-pie "$OUT/static-pie"
problem "linked statically"
check musl "$OUT/musl"
problem "linked with musl"

step "one that could open it, and one that has"
check dynamic "$OUT/dynamic"
has "$said" '^ok +it has loaded .*libibverbs.so.1$'
has "$said" '^ok +.* is the container.s socket$'
has "$said" '^ok +nothing is in its way'
((!status)) || fail "status $status: $said"
inside h0c0 ibv_asyncwatch >"$OUT/watch" 2>&1 &
watch=$!
wait_for 60 grep -qs 'async event FD' "$OUT/watch" || fail "ibv_asyncwatch"
show=$(router_ctl container show h0c0)
has "$show" '^opened +(once|[0-9]+ times, the last),? *[0-9]+ s ago$'
pid=$(awk '/ibv_asyncwatch/ { print $2 }' <<<"$show")
has "$(router_ctl container check h0c0 --pid "$pid")" '^ok +it has the device open$'
kill $watch
wait $watch

if [[ $archive ]]; then
	step "rdma-core inside of the program"
	check inside "$OUT/inside"
	problem "rdma-core.s libibverbs is linked into it statically"
fi
if [[ $direct ]]; then
	step "a program that asks a NIC's hardware"
	check direct "$OUT/direct"
	has "$said" '^note +it has loaded .*/libmlx5[.]so[.].*mlx5dv, DevX'
	has "$said" '^ok +it has loaded .*libibverbs.so.1$'
	((!status)) || fail "status $status: $said"
fi

step "the socket"
check dynamic env FFL_SOCKET="$OUT/none" "$OUT/dynamic"
problem "$OUT/none is not there"
check dynamic env FFL_SOCKET="$FF_LAB/h0/run/containers/h0c1/ffr.sock" "$OUT/dynamic"
problem "is not the socket of container h0c0"

step "the cgroup"
router_ctl container set h0c0 --cgroup /freeflow-no-such-one >/dev/null || fail "container set"
check dynamic "$OUT/dynamic"
problem "its cgroup is .*, and the container's is /freeflow-no-such-one"
inside h0c0 ibv_devices >/dev/null 2>&1
has "$(router_ctl container show h0c0)" '^refused +(once|[0-9]+ times, the last),? *[0-9]+ s ago: process [0-9]+: it is not in the container.s cgroup$'
router_ctl container set h0c0 --cgroup none >/dev/null || fail "container set"

step "who can not open its own memory"
cp "$OUT/dynamic" "$OUT/setuid" && chown nobody "$OUT/setuid" && chmod 4755 "$OUT/setuid"
check setuid "$OUT/setuid"
problem "cannot open its own memory"

step "outside of a container"
"$OUT/dynamic" &
job=$!
said=$(router_ctl container check h0c0 --pid $job)
status=$?
kill $job
problem "there is no /usr/lib/freeflow/libibverbs.so.1 there: start the container with --runtime freeflow .* ffctl container show h0c0 --docker"
problem "ffr.sock is not there"
said=$(router_ctl --json container check h0c0 --pid $$)
(($? == 1)) || fail "status"
python3 -c '
import json, sys
found = json.load(sys.stdin)
assert all(type(f["ok"]) == bool and f["text"] for f in found) and not all(f["ok"] for f in found), found' <<<"$said" || fail "JSON"

step "bad arguments"
for args in h0c0 "h0c0 --pid" "h0c0 --pid 0" "h0c0 --pid x" "--pid $$" "h0c0 --pid $$ --ip 10.0.0.1"; do
	# shellcheck disable=SC2086 # the words of it
	router_ctl container check $args 2>"$OUT/err"
	(($? == 2)) || fail "container check $args"
	grep -q '^ffctl: ' "$OUT/err" || fail "$(cat "$OUT/err")"
done
! router_ctl container check no-such-one --pid $$ 2>/dev/null || fail "a container that is not there"
! router_ctl container check h0c0 --pid 4194303999 2>/dev/null || fail "a process that is not there"
exit 0
