#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 1200
# papers.sh [PAGE...] - the commands that the documents mark as runnable (```sh runnable), each page in a fresh Debian 12 with
# systemd, Docker and what freeflow's packages depend on. The system has no network, so the image rdma-tools of the quick start
# is there, of Debian's own programs. Pages other than the quick start begin where its sections Install and Docker have ended.
set -u -o pipefail
. "$(dirname "$0")/common.sh"
. "$TREE/tests/rig/shell/root.sh"
cd "$TREE" || exit 1

((EUID == 0)) || skip "needs root"
command -v mmdebstrap >/dev/null || skip "no mmdebstrap (make deps)"
trap '[[ -z ${ROOT_JOB-} ]] || root_down; rm -rf --one-file-system "$TMP"' EXIT

ROOT_PACKAGES+=,docker.io,iptables,ca-certificates,iproute2,ibverbs-utils,perftest,rdmacm-utils,openssl,procps
# shellcheck disable=SC2034 # root.sh's
ROOT_CONTROLLERS="memory pids cpu cpuacct devices freezer blkio"
QUICKSTART=docs/quickstart.md

image() { # prints the path of the image's tar file
	# shellcheck disable=SC1091
	(say() { :; }; die() { exit 1; }; . tests/lab/image.sh && image_tar debian12) 2>/dev/null
}

boot() { # PAGE: a fresh system, with what its reader has
	local root=$TMP/root home=$TMP/root/root/freeflow
	root_make "$root" bookworm || fail "tar"
	mkdir -p "$home"/{build/deb,deploy}
	cp -r deploy/ci "$home/deploy/"
	cp "$DEBS"/freeflow-router_*.deb "$DEBS"/libfreeflow-container_*.deb "$home/build/deb/" || fail "no packages"
	cp "$IMAGE" "$root/root/image.tar"
	root_boot "$root" || skip "no fresh system can be started here"
	wait_for 60 root_run docker info >/dev/null 2>&1 || skip "Docker does not start here: $(root_run journalctl -u docker | tail -n 5)"
	root_run docker import /root/image.tar rdma-tools >/dev/null || fail "docker import"
	[[ $1 == "$QUICKSTART" ]] || run_script "$QUICKSTART" 2 >"$TMP/log" 2>&1 || fail "$QUICKSTART: $(cat "$TMP/log")"
}

run_script() { # PAGE [FIRST]: its blocks, or the first ones
	{
		echo 'set -eu -o pipefail; cd /root/freeflow'
		awk -v first="${2:-0}" -f tests/packages/blocks.awk "$1"
	} >"$TMP/script"
	root_run timeout 300 bash -s <"$TMP/script"
}

down() {
	root_run docker ps -aq >"$TMP/left" 2>/dev/null
	[[ ! -s $TMP/left ]] || fail "containers are left: $(root_run docker ps -a)"
	root_down
	ROOT_JOB=
	rm -rf --one-file-system "$TMP/root" || fail "something is mounted below $TMP/root"
}

root_tar bookworm >/dev/null || skip "no fresh Debian 12 here"
IMAGE=$(image) || skip "no image here"
pages=("$@")
((${#pages[@]})) || mapfile -t pages < <(grep -rlx '```sh runnable' README.md docs)
for page in "${pages[@]}"; do
	step "$page"
	boot "$page"
	run_script "$page" >"$TMP/log" 2>&1 || fail "$page: $(tail -n 30 "$TMP/log")"
	cat "$TMP/log"
	down
done
exit 0
