#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 960
# install.sh [SUITE...] - the packages in fresh Debian 12 and 13 systems, each with its own systemd, as an operator has
# them: installed, the router runs, with its socket, its journal and its watchdog; upgraded, and configuration and
# store are there; purged, and nothing is left.
# shellcheck disable=SC2016 # words for the root's shell
set -u -o pipefail
. "$(dirname "$0")/common.sh"
. "$TREE/tests/rig/shell/root.sh"

((EUID == 0)) || skip "needs root"
command -v mmdebstrap >/dev/null || skip "no mmdebstrap (make deps)"
trap '[[ -z ${ROOT_JOB-} ]] || root_down; rm -rf "$TMP"' EXIT

# The same files, as a later version.
later_version() { # DEB
	local dir=$TMP/later/${1##*/}
	mkdir -p "$TMP/later"
	dpkg-deb -R "$1" "$dir"
	sed -i 's/^Version: .*/Version: 99/; s/(= [^)]*)/(= 99)/' "$dir/DEBIAN/control"
	dpkg-deb --root-owner-group -Znone -b "$dir" "$dir.deb" >/dev/null
	rm -rf "$dir"
}

# What belongs to nobody but packages of the system, and changes by itself
files() {
	root_run find / -xdev -path /proc -prune -o -path /sys -prune -o -path /run -prune -o -path /tmp -prune -o \
		-path /dev -prune -o -path /debs -prune -o -path '/var/log/*' -prune -o -path '/var/lib/dpkg/*' -prune -o \
		-path '/var/lib/systemd/*' -prune -o -path '/var/cache/*' -prune -o \
		-path '/etc/*-' -prune -o -path '/etc/.pwd.lock' -prune -o -print | sort
}

runs() { # UNIT...: all of them
	root_run systemctl is-active --quiet "$@"
}

active() {
	[[ $(root_run systemctl is-active "$1") == active ]]
}

# Microseconds from the start of ffr.service to the last time that it said it was alive
alive_for() {
	root_run systemctl show -P WatchdogTimestampMonotonic -P ActiveEnterTimestampMonotonic ffr.service |
		{ read -r alive && read -r started && echo $((alive - started)); }
}

restarts() {
	root_run systemctl show -P NRestarts ffr.service
}

answers() {
	root_run timeout 5 ffctl ping >/dev/null 2>&1
}

router_pid() { # the parent's other children are named
	# shellcheck disable=SC2016
	root_run sh -c 'm=$(systemctl show -P MainPID ffr.service)
		for p in $(cat /proc/$m/task/$m/children); do
			case $(cat /proc/$p/comm) in ffr-keeper | ffr-orphans | ffr-nursery) ;; *) echo $p ;; esac
		done'
}

release() { # SUITE
	local root=$TMP/$1 deb before before_pid advice
	root_make "$root" "$1" || return 1
	mkdir "$root/debs"
	cp "$DEBS"/freeflow-{router,orchestrator,doc}_*.deb "$DEBS"/libfreeflow-container_*.deb "$root/debs/"
	mkdir "$root/debs/later"
	cp "$TMP"/later/*.deb "$root/debs/later/"
	root_boot "$root" || return 1
	before=$(files)

	step "$1: install"
	root_run sh -c 'dpkg -i /debs/*.deb' >"$TMP/log" 2>&1 || fail "dpkg -i: $(tail -n 20 "$TMP/log")"
	runs ffr.service ffr-admin.socket ffr-cdi.path ffr-addresses.service ||
		fail "it does not run: $(root_run systemctl status ffr.service; root_run journalctl -u ffr.service | tail -n 20)"
	answers || fail "no answer"
	[[ $(root_run systemctl is-enabled ffr.service ffo.service | tr '\n' ' ') == "enabled disabled " ]] ||
		fail "enabled: $(root_run systemctl is-enabled ffr.service ffo.service)"
	[[ $(root_run stat -c %U "/proc/$(router_pid)") == freeflow ]] || fail "the router is somebody else"
	[[ $(root_run sh -c 'ldconfig -p | grep -c -E "freeflow"') == 0 ]] || fail "the host's programs find our libraries"
	root_run journalctl SYSLOG_IDENTIFIER=ffr PRIORITY=6 -o cat | grep >/dev/null '^ready: host' ||
		fail "the journal: $(root_run journalctl -u ffr.service -o export | tail -n 30)"
	root_run systemd-analyze verify --man=no /lib/systemd/system/ff{r,o}.service >"$TMP/log" 2>&1
	! grep -E '/(ffr|ffo|ffr-admin)\.' "$TMP/log" || fail "systemd-analyze verify"

	step "$1: restart, watchdog"
	root_run ffctl container add web --ip 10.77.0.2 >/dev/null || fail "container add"
	wait_for 10 root_run grep -q '"name": "web"' /run/cdi/freeflow.json || fail "web is no device of CDI's"
	root_run sh -c 'kill -KILL $(systemctl show -P MainPID ffr.service)'
	wait_for 20 eval 'active ffr.service && answers' || fail "not started again"
	(($(restarts) == 1)) || fail "restarts: $(restarts)"
	root_run mkdir -p /run/systemd/system/ffr.service.d
	root_run sh -c 'printf "[Service]\nWatchdogSec=2\n" >/run/systemd/system/ffr.service.d/test.conf
		systemctl daemon-reload; systemctl restart ffr.service'
	wait_for 60 eval '(($(alive_for) > 3000000))' || fail "it does not say that it is alive"
	{ active ffr.service && (($(restarts) == 0)); } || fail "the watchdog ended a router that lives"
	root_run sh -c "kill -STOP $(router_pid)"
	wait_for 30 eval '(($(restarts) >= 1)) && active ffr.service && answers' || fail "the watchdog did not see it"
	root_run rm -r /run/systemd/system/ffr.service.d
	root_run systemctl daemon-reload

	step "$1: many containers and many starts in ten seconds"
	for n in {1..8}; do
		root_run ffctl container add "many$n" >/dev/null || fail "container add"
		wait_for 10 root_run grep -q "\"many$n\"" /run/cdi/freeflow.json || fail "many$n is no device: $(
			root_run systemctl status ffr-cdi.path ffr-cdi.service)"
	done
	for n in {1..8}; do
		root_run systemctl restart ffr-admin.socket || fail "start $n: $(root_run systemctl status ffr-admin.socket)"
		root_run ffctl container rm "many$n" >/dev/null || fail "container rm"
	done
	wait_for 10 eval '! root_run grep -q many /run/cdi/freeflow.json' || fail "the last of many is a device"
	runs ffr.service ffr-admin.socket ffr-cdi.path ffr-addresses.service || fail "not all of it runs: $(
		root_run systemctl status ffr.service ffr-admin.socket ffr-cdi.path)"

	step "$1: reload"
	before_pid=$(root_run systemctl show -P MainPID ffr.service)
	root_run sh -c 'echo "metrics = \"unix:/run/freeflow/m.sock\"" >>/etc/freeflow/ffr.conf; systemctl reload ffr.service' ||
		fail "systemctl reload: $(root_run journalctl -u ffr.service | tail)"
	wait_for 20 root_run test -S /run/freeflow/m.sock || fail "not read again: $(root_run journalctl -u ffr.service | tail)"
	root_run sh -c 'cp /etc/freeflow/ffr.conf /tmp/good; echo "log_levl = debug" >>/etc/freeflow/ffr.conf'
	! root_run systemctl reload ffr.service 2>/dev/null || fail "systemctl reload takes a mistake"
	root_run journalctl -u ffr.service -o cat | grep >/dev/null "ffr.conf:[0-9]*: no such option 'log_levl'" ||
		fail "not told: $(root_run journalctl -u ffr.service | tail)"
	root_run sh -c 'kill -HUP $(systemctl show -P MainPID ffr.service)'
	answers || fail "no answer after a mistake and SIGHUP"
	[[ $(root_run systemctl show -P MainPID ffr.service) == "$before_pid" ]] || fail "it was started again"
	root_run sh -c 'systemctl start ffo.service; kill -HUP $(systemctl show -P MainPID ffo.service); systemctl reload ffo.service' ||
		fail "ffo: $(root_run journalctl -u ffo.service | tail)"
	active ffo.service || fail "ffo ends by SIGHUP"
	root_run systemctl stop ffo.service

	step "$1: a mistake at the start, and mended"
	! root_run systemctl restart ffr.service 2>/dev/null || fail "it starts with a mistake"
	for _ in 1 2 3; do
		! root_run timeout 30 ffctl ping >/dev/null 2>&1 || fail "somebody answers"
	done
	root_run ffctl doctor >"$TMP/log" 2>&1
	grep -q 'mistake in ffr.conf' "$TMP/log" || fail "the doctor: $(<"$TMP/log")"
	root_run sh -c 'cp /tmp/good /etc/freeflow/ffr.conf; systemctl restart ffr.service' ||
		fail "it does not start: $(root_run systemctl status ffr.service ffr-admin.socket)"
	wait_for 20 answers || fail "no answer"
	runs ffr.service ffr-admin.socket ffr-addresses.service || fail "not all of it runs again"
	root_run sed -i '/m.sock/d' /etc/freeflow/ffr.conf

	step "$1: ended by what is no failure"
	root_run sh -c 'kill $(systemctl show -P MainPID ffr.service)'
	wait_for 20 eval 'active ffr.service && answers' || fail "not started again after SIGTERM"

	step "$1: stopped by an operator"
	root_run systemctl stop ffr.service
	! answers || fail "ffctl starts a router that was stopped"
	! active ffr.service || fail "it runs: $(root_run systemctl status ffr.service ffr-admin.socket)"
	root_run ffctl doctor >"$TMP/log" 2>&1
	grep -q 'systemctl start ffr' "$TMP/log" || fail "the doctor: $(<"$TMP/log")"
	root_run systemctl start ffr.service || fail "it does not start"
	wait_for 20 answers || fail "no answer"
	runs ffr.service ffr-admin.socket ffr-addresses.service || fail "not all of it runs again"

	step "$1: masked, as where the router is in a pod"
	root_run sh -c 'systemctl mask --now ffr.service ffr-admin.socket
		systemctl add-wants multi-user.target ffr-addresses.service && systemctl start ffr-addresses.service' \
		>"$TMP/log" 2>&1 || fail "mask: $(<"$TMP/log")"
	active ffr-addresses.service || fail "nobody follows addresses"
	root_run systemd-run -q --unit pod /usr/sbin/ffr || fail "systemd-run"
	wait_for 20 answers || fail "ffctl does not ask it: $(root_run ffctl ping 2>&1)"
	root_run sh -c 'systemctl stop pod.service; rm /etc/systemd/system/multi-user.target.wants/ffr-addresses.service
		systemctl unmask ffr.service ffr-admin.socket && systemctl start ffr.service' >"$TMP/log" 2>&1 ||
		fail "unmask: $(<"$TMP/log")"
	wait_for 20 answers || fail "no answer"
	runs ffr.service ffr-admin.socket ffr-addresses.service || fail "not all of it runs again"

	step "$1: without its folder"
	root_run rm -rf /run/freeflow
	! root_run ffctl doctor >"$TMP/log" 2>&1 || fail "all is well: $(<"$TMP/log")"
	advice=$(sed -n 's/.*\(systemd-tmpfiles .*\); then start the containers.*/\1/p' "$TMP/log")
	root_run sh -c "${advice:?}" || fail "the doctor's advice: $advice"
	wait_for 20 answers || fail "no answer after $advice: $(root_run systemctl status ffr-admin.socket ffr.service 2>&1
		root_run journalctl -o short-precise | tail -n 40; root_run ls -l /run/freeflow)"
	[[ $(root_run stat -c %U /run/freeflow/containers/web) == freeflow ]] || fail "web has no folder"

	step "$1: in a network of its own, as ffr(8) has it for a single host"
	root_run sh -c 'mkdir -p /run/systemd/system/ffr.service.d
		printf "[Service]\nPrivateNetwork=yes\n" >/run/systemd/system/ffr.service.d/test.conf
		systemctl daemon-reload; systemctl restart ffr.service' || fail "it does not start"
	wait_for 20 answers || fail "no answer"
	[[ $(root_run readlink "/proc/$(router_pid)/ns/net") != "$(root_run readlink /proc/1/ns/net)" ]] ||
		fail "it is in the host's network"
	root_run sh -c 'rm -r /run/systemd/system/ffr.service.d; systemctl daemon-reload; systemctl restart ffr.service' ||
		fail "it does not start"
	wait_for 20 answers || fail "no answer"

	step "$1: upgrade"
	root_run sh -c 'echo "log_level = debug" >>/etc/freeflow/ffr.conf; echo key >/etc/freeflow/host.key
		systemctl start ffo.service' || fail "ffo does not start: $(root_run journalctl -u ffo.service | tail)"
	root_run sh -c 'dpkg -i /debs/later/*.deb' >"$TMP/log" 2>&1 || fail "upgrade: $(tail -n 20 "$TMP/log")"
	[[ $(root_run dpkg-query -W -f '${Version}' freeflow-router) == 99 ]] || fail "not upgraded"
	wait_for 20 answers || fail "no answer after the upgrade"
	active ffo.service || fail "ffo does not run after the upgrade: $(root_run journalctl -u ffo.service | tail -n 20)"
	root_run tail -n 1 /etc/freeflow/ffr.conf | grep >/dev/null 'log_level = debug' || fail "the configuration is another one"
	root_run ffctl container list | grep >/dev/null '^web .*10\.77\.0\.2' || fail "the store is another one"

	step "$1: rollback"
	root_run sh -c 'cp -a /var/lib/freeflow /var/lib/freeflow.before; dpkg -i /debs/*.deb' >"$TMP/log" 2>&1 ||
		fail "rollback: $(tail -n 20 "$TMP/log")"
	[[ $(root_run dpkg-query -W -f '${Version}' freeflow-router) != 99 ]] || fail "not rolled back"
	wait_for 20 answers ||
		fail "no answer after the rollback: $(root_run systemctl status ffr.service; root_run journalctl -u ffr.service | tail -n 30)"
	root_run ffctl container list | grep >/dev/null '^web .*10\.77\.0\.2' || fail "the store is another one"
	root_run rm -r /var/lib/freeflow.before

	step "$1: purge"
	root_run sh -c 'rm /etc/freeflow/host.key; dpkg -r freeflow-router' >"$TMP/log" 2>&1 || fail "dpkg -r"
	! active ffr.service || fail "it runs without its package"
	root_run test -e /var/lib/freeflow/router.db -a -e /etc/freeflow/ffr.conf || fail "removed as if purged"
	root_run sh -c 'dpkg -P freeflow-router freeflow-orchestrator freeflow-doc libfreeflow-container' >"$TMP/log" 2>&1 ||
		fail "dpkg -P: $(tail -n 20 "$TMP/log")"
	[[ $(diff <(echo "$before") <(files)) == "" ]] || fail "left: $(diff <(echo "$before") <(files))"
	root_down
	ROOT_JOB=
}

for deb in "$DEBS"/freeflow-{router,orchestrator,doc}_*.deb "$DEBS"/libfreeflow-container_*.deb; do
	later_version "$deb"
done
done=0
for suite in "${@:-bookworm trixie}"; do
	for s in $suite; do
		release "$s" && ((++done))
	done
done
((done)) || skip "no fresh system can be made, or started, here"
exit 0
