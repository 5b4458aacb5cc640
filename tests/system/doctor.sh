#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: hosts
# timeout: 300
# doctor.sh - ffctl doctor on hosts that are well and on broken ones: each time it names the cause, says what to do,
# and finds no other problem.
. "$(dirname "$0")/../rig/shell/lab.sh"
own_lab --containers 2

CDI=$OUT/cdi.json
DOCKER=$OUT/daemon.json

# doctor ARGS...: its words in $said, its status in $status. In h0's network; the machine's own engines are left out.
doctor() {
	said=$(nsenter --net="/run/netns/$(lab_id "$OWN_LAB")-h0" "$BUILD/bin/ffctl" --admin "$OWN_LAB/h0/admin.sock" \
		doctor --cdi "$CDI" --daemon-json "$DOCKER" "$@" 2>&1)
	status=$?
}

well() {
	doctor "$@"
	((!status)) || fail "status $status: $said"
	! grep PROBLEM <<<"$said" || fail "a problem on a host that is well"
}

# finds N REGEX ADVICE: so many problems, one is that, and below it is what to do.
finds() {
	((status == 1)) || fail "status $status: $said"
	(($(grep -c ^PROBLEM <<<"$said") == $1)) || fail "not $1 problems: $said"
	grep -E -A1 "^PROBLEM +.*$2" <<<"$said" | grep >/dev/null -E -- "^ +-> .*$3" || fail "not '$2' with '$3': $said"
}

# Sends the router one request, and fails unless it says yes.
tell() { # JSON
	python3 -c 'import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall((sys.argv[2] + "\n").encode())
answer = s.makefile().readline()
sys.exit(0 if json.loads(answer)["ok"] else answer)' "$OWN_LAB/h0/admin.sock" "$1" || fail "$1"
}

says() { # REGEX
	grep -Eq -- "$1" <<<"$said" || fail "no '$1': $said"
}

step "well"
well
says '^ok +router: ffr [0-9.]+ on h0 answers at .*/h0/admin.sock$'
says '^ok +orchestrator: .*, connected$'
says '^ok +host h1: tcp:.* takes connections$'
says '^note +engines: none knows freeflow'
well h0c0
says '^note +container h0c0: no program has opened the device yet$'
inside h0c0 ibv_devices >"$OUT/devices" || fail "ibv_devices"
well h0c0
says '^ok +container h0c0: programs have opened the device$'

step "1: a container that is another host's, 2: one that nobody knows"
doctor h1c0
finds 1 "container h1c0: it belongs to host h1" "container claim"
doctor no-such-one
finds 1 "container no-such-one: the router does not know it" "container add"

step "3: a device file of engines that is old, 4: a hook that is gone"
router_ctl cdi --write "$CDI" >/dev/null || fail "cdi --write"
well
says '^ok +CDI: .* is current$'
router_ctl container add late --ip 10.99.0.9 >/dev/null || fail "container add"
doctor
finds 1 "CDI: .* has no device for container late" "ffctl cdi --write"
tell '{"op": "container_runs", "name": "late", "id": "4f", "runs": true}'
well # as the hook has added it: ffr-cdi.path writes it into the file a moment later
tell '{"op": "container_runs", "name": "late", "id": "4f", "runs": false}'
router_ctl container rm late || fail "container rm"
sed -i 's,"path": "[^"]*","path": "/no/such/hook",' "$CDI"
doctor
finds 1 "CDI: .* its hook /no/such/hook: No such file" "ffctl cdi --write"
rm "$CDI"

step "5: dockerd's configuration: no JSON; 6: a runtime that is not installed"
echo '{ "runtimes": ' >"$DOCKER"
doctor
finds 1 "docker: .*daemon.json, line" "dockerd does not start"
echo '{ "runtimes": { "freeflow": { "path": "/no/such/freeflow-runc" } } }' >"$DOCKER"
doctor
finds 1 "docker: .* runtime freeflow: /no/such/freeflow-runc: No such file" "freeflow-router"
echo "{ \"runtimes\": { \"freeflow\": { \"path\": \"$BUILD/bin/freeflow-runc\" } } }" >"$DOCKER"
well
says '^ok +docker: --runtime freeflow$'
says '^note +CDI: there is no '
echo "{ \"runtimes\": { \"h9\": { \"path\": \"$BUILD/bin/freeflow-runc\",
	\"runtimeArgs\": [\"--freeflow-admin=$OUT/gone.sock\"] } } }" >"$DOCKER"
doctor
finds 1 "docker: .* runtime h9: its router's socket $OUT/gone.sock: No such file" "start the router"
rm "$DOCKER"

step "7: an image with musl, one without libraries, one with glibc"
mkdir -p "$OUT/alpine/lib" "$OUT/scratch"
cp -L /bin/true "$OUT/alpine/lib/ld-musl-$(uname -m).so.1" # a program of this machine: as its loader is
doctor --image "$OUT/alpine"
finds 1 "image .*alpine: .* its C library is musl" "an image of Debian"
doctor --image "$OUT/scratch"
finds 1 "image .*scratch: .*linked statically" "an image of Debian"
well --image /
says '^ok +image /: '

step "8: the wrong cgroup"
router_ctl container set h0c0 --cgroup /freeflow-no-such-one >/dev/null || fail "container set"
inside h0c0 ibv_devices >/dev/null 2>&1
doctor h0c0
finds 1 "container h0c0: [0-9]+ programs were refused, .*: it is not in the container.s cgroup" "container check"
router_ctl container set h0c0 --cgroup none >/dev/null || fail "container set"

step "9: a quota that is used up"
router_ctl container set h0c1 --max-qp 1 >/dev/null || fail "container set"
inside h0c1 ibv_rc_pingpong -g 0 -p 18515 >"$OUT/server" 2>&1 &
server=$!
wait_for 60 listens h0c1 18515 || fail "$(cat "$OUT/server")"
doctor h0c1
finds 1 "container h0c1: it has all 1 of max_qp" "container set"
kill $server
wait $server
router_ctl container set h0c1 --max-qp none >/dev/null || fail "container set"
well h0c1
router_ctl tenant set default --max-qp 1 || fail "tenant set"
inside h0c1 ibv_rc_pingpong -g 0 -p 18515 >"$OUT/server" 2>&1 &
server=$!
wait_for 60 listens h0c1 18515 || fail "$(cat "$OUT/server")"
doctor h0c1
finds 1 "container h0c1: its tenant has all 1 of max_qp" "tenant set"
kill $server
wait $server
router_ctl tenant set default --max-qp none || fail "tenant set"
well h0c1

step "10: throttled"
router_ctl container set h0c1 --tx-rate 1Mbit >/dev/null || fail "container set"
inside h0c0 ib_write_bw -D 60 >"$OUT/server" 2>&1 &
server=$!
wait_for 60 listens h0c0 18515 || fail "$(cat "$OUT/server")"
inside h0c1 ib_write_bw -D 60 h0c0 >"$OUT/client" 2>&1 &
client=$!
throttled() {
	well h0c1
	grep -q '^note .*throttled' <<<"$said"
}
wait_for 60 throttled || fail "not throttled: $(cat "$OUT/client")"
says '^note +container h0c1: throttled: it is limited to tx-rate 1Mbit \(the container.s\)$'
router_ctl tenant set default --rx-ops 5M || fail "tenant set"
wait_for 60 throttled || fail "not throttled: $(cat "$OUT/client")"
says '^note .* limited to tx-rate 1Mbit \(the container.s\), rx-ops 5M \(the tenant.s\)$'
router_ctl tenant rm default 2>/dev/null || router_ctl tenant set default --rx-ops none || fail "tenant set"
router_ctl container set h0c1 --tx-rate none >/dev/null || fail "container set"
router_ctl container set h0c0 --rx-rate 1Mbit >/dev/null || fail "container set"
by_its_peer() {
	well h0c1
	grep -q '^note .*h0c1: throttled: it sends to a container with a limit' <<<"$said"
}
wait_for 60 by_its_peer || fail "not throttled by its peer: $said"
router_ctl container set h0c0 --rx-rate none >/dev/null || fail "container set"
kill $client $server
wait $client $server

step "11: a process without the library, and an address of another network"
unshare -n sleep 60 &
job=$!
doctor h0c1 --pid $job
says '^PROBLEM +.*libibverbs.so.1 there'
says '^note +container h0c1: .* is none of its network'
doctor no-such-one --pid $job
finds 2 "container no-such-one: the router does not know it" "start it with --runtime freeflow"
says '^PROBLEM +there is no .*libibverbs.so.1 there'
kill $job
wait $job
pid=$(head -n 1 "$FF_LAB/h0c1/pid")
doctor h0c1 --pid "$pid"
says '^ok +container h0c1: .* is an address of its network$'

step "12: the other host can not be reached"
"$LAB" partition h0 h1 || fail "partition"
partitioned() {
	doctor
	((status))
}
wait_for 60 partitioned || fail "nothing is seen of the partition"
finds 1 "host h1: tcp:.*: (Connection timed out|No route to host).*retry counter" "firewall|route"
"$LAB" heal h0 h1 || fail "heal"

step "13: its router does not run"
"$LAB" kill router h1
h1_gone() {
	doctor
	grep -q 'PROBLEM.*host h1' <<<"$said"
}
wait_for 60 h1_gone || fail "$said"
finds 1 "host h1: .*(refused|not heard)" "."
"$LAB" restart router h1 || fail "restart"
h1_back() {
	doctor
	((!status))
}
wait_for 30 h1_back || fail "h1 is not well again: $said"

step "14: the orchestrator is gone"
"$LAB" kill orchestrator
no_orchestrator() {
	doctor
	((status))
}
wait_for 60 no_orchestrator || fail "$said"
finds 1 "orchestrator: .*; what is known goes on" "."
"$LAB" restart orchestrator || fail "restart"
wait_for 30 h1_back || fail "not well again: $said"

step "15: the router is stopped, 16: it is gone"
kill -STOP "$(<"$OWN_LAB/h0/router.pid")"
doctor
if [[ -d /run/systemd/system ]]; then
	finds 1 "router: .* does not answer" "systemctl status ffr"
else
	finds 1 "router: .* does not answer" "kill -CONT"
	! grep systemctl <<<"$said" || fail "advice for systemd, which does not run here"
	# shellcheck disable=SC2016
	said=$(unshare -m sh -c 'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec "$@"' - "$BUILD/bin/ffctl" \
		--admin "$OWN_LAB/h0/admin.sock" --timeout 1 doctor 2>&1)
	status=$?
	finds 1 "router: .* does not answer" "systemctl status ffr"
fi
mkdir "$OUT/bin"
cat >"$OUT/bin/systemctl" <<-SH
	#!/bin/sh
	sed -n "s/^\$4 \$3 //p" "$OUT/units"
SH
chmod +x "$OUT/bin/systemctl"
printf '%s\n' 'ffr.service ExecMainStatus 2' 'ffr.service ExecMainCode 1' >"$OUT/units"
PATH=$OUT/bin:$PATH doctor
finds 1 "router: ffr.service: there is a mistake in ffr.conf" "ffr --check .*reset-failed"
printf '%s\n' 'ffr.service ExecMainStatus 2' 'ffr.service ExecMainCode 2' 'ffr-admin.socket Result trigger-limit-hit' >"$OUT/units"
PATH=$OUT/bin:$PATH doctor
finds 1 "router: ffr.service: it failed so often" "journalctl -u ffr .*reset-failed"
# A masked unit: the router runs in a pod.
echo 'ffr.service LoadState masked' >"$OUT/units"
# shellcheck disable=SC2016
said=$(PATH=$OUT/bin:$PATH unshare -m sh -c 'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec "$@"' - \
	"$BUILD/bin/ffctl" --admin "$OWN_LAB/h0/admin.sock" --timeout 1 doctor 2>&1)
status=$?
finds 1 "router: .* does not answer" "liveness probe starts it again; kubectl"
! grep systemctl <<<"$said" || fail "advice for systemd, which does not start this router"
# A unit that was stopped, at the usual socket: nobody connects. A masked one: the router is in a container.
ping_where() { # LOAD-STATE: what ffctl says, in $said
	printf '%s\n' "ffr.service LoadState $1" 'ffr.service ActiveState inactive' >"$OUT/units"
	# shellcheck disable=SC2016
	said=$(PATH=$OUT/bin:$PATH unshare -m sh -c 'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/units /run/freeflow &&
		touch /run/freeflow/admin.sock && exec "$1" ping' - "$BUILD/bin/ffctl" 2>&1)
}
ping_where loaded
says 'ffr.service was stopped'
ping_where masked
says 'Connection refused'
kill -CONT "$(<"$OWN_LAB/h0/router.pid")"
"$LAB" kill router h0
doctor
finds 1 "router: (ffr does not run|this host's router does not run at .*; another ffr runs \(process [0-9]+\))" "(systemctl start|ffr &)|--admin SOCKET"
doctor h0c1 --pid "$pid"
says '^PROBLEM +router: '
says '^ok +it is linked dynamically'

step "JSON, and bad arguments"
said=$(router_ctl --json doctor --cdi "$CDI" --daemon-json "$DOCKER")
python3 -c '
import json, sys
found = json.load(sys.stdin)
assert {f["level"] for f in found} == {"ok", "note", "problem"}, found
assert all(f["ok"] == (f["level"] != "problem") and f["text"] for f in found), found
assert all(f["advice"] for f in found if f["level"] == "problem"), found' <<<"$said" || fail "JSON"
for args in "--pid 1" "h0c0 --pid x" "h0c0 h0c1" "--image" "--no-such-option"; do
	# shellcheck disable=SC2086 # the words of it
	router_ctl doctor $args 2>"$OUT/err"
	(($? == 2)) || fail "doctor $args"
	grep -q '^ffctl: ' "$OUT/err" || fail "$(cat "$OUT/err")"
done
"$LAB" restart router h0 || fail "restart"
exit 0
