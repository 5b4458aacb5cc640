#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 360
# runtime_podman.sh - one flag for engines with CDI, in podman: --device freeflow.io/rdma=NAME, with the specification that
# ffctl cdi writes; a container that the operator has added, and one that nobody knew. With this machine's podman, and
# with Debian 13's.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/trixie.sh"

command -v podman >/dev/null || skip "no podman (make deps)"
command -v runc >/dev/null || skip "no runc"
. "$TREE/tests/lab/common.sh"
. "$TREE/tests/lab/image.sh"
own_lab --containers 1
tar=$(image_tar debian12) || skip "no image can be made here"

trap 'rm -rf "$store"; end_test' EXIT

# In a mount namespace of its own, where /run/cdi is the lab's, and /usr is of $usr. The limits are below those of this
# machine.
pod() { # SPECIFICATION ARGS...
	# shellcheck disable=SC2016
	unshare --mount --propagation private /bin/bash -ec '
		mkdir -p /run/cdi
		mount -t tmpfs tmpfs /run/cdi
		cp "$1" /run/cdi/freeflow.json
		mount --rbind "$2" /usr
		shift 2
		exec podman "$@"' - "$1" "$usr" --root "$store/root" --runroot "$store/run" --tmpdir "$store/tmp" \
		--cgroup-manager cgroupfs --events-backend none --storage-driver vfs --runtime "$(command -v runc)" "${@:2}"
}

run() { # ARGS...
	pod "$OUT/cdi.json" run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$@" 2>&1
}

known() { # NAME
	router_ctl container show "$1" >/dev/null 2>&1
}

step "the specification has what the router has"
router_ctl container add web --ip 10.88.1.2 >/dev/null || fail "container add"
router_ctl cdi --write "$OUT/cdi.json" || fail "cdi --write"
grep -q '"name": "web"' "$OUT/cdi.json" || fail "$(<"$OUT/cdi.json")"
[[ $(stat -c %a "$OUT/cdi.json") == 644 ]] || fail "its mode is $(stat -c %a "$OUT/cdi.json")"

with() { # USR: what the flag does with the podman in that folder
	usr=$1
	store=$(mktemp -d /tmp/freeflow-podman.XXXXXX)
	version=$(pod "$OUT/cdi.json" --version)
	pod "$OUT/cdi.json" import "$tar" ff:test >/dev/null 2>&1 || fail "podman import"
	out=$(run ff:test true) || skip "$version does not run here: $(tail -n 1 <<<"$out")"

	step "$version: one that the operator has added"
	out=$(run --device freeflow.io/rdma=web ff:test ibv_devinfo -v) || fail "$out"
	[[ $out == *10.88.1.2* ]] || fail "$out"
	known web || fail "it went with its end"
	! router_ctl --json container show web | grep >/dev/null '"runs"' || fail "it runs after its end"

	step "$version: one that nobody knew"
	out=$(run --device freeflow.io/rdma=auto --hostname zed ff:test ibv_devinfo) || fail "$out"
	[[ $out == *"hca_id:	ff0"* ]] || fail "$out"
	! known zed || fail "it is known after its end"

	step "$version: a container has one device"
	out=$(run --device freeflow.io/rdma=web --device freeflow.io/rdma=auto --hostname zed ff:test true) && fail "it has two"
	[[ $out == *"a container has one RDMA device"* ]] || fail "$out"
	! known zed || fail "the second one is known"
	! router_ctl --json container show web | grep >/dev/null '"runs"' || fail "the first one runs"

	step "$version: an image's annotations are not the operator's word"
	out=$(run --device freeflow.io/rdma=auto --hostname zed --annotation freeflow.io/name=web ff:test ibv_devinfo -v) ||
		fail "$out"
	[[ $out != *10.88.1.2* ]] || fail "an annotation chose the name: $out"

	step "$version: one that the specification does not have"
	out=$(run --device freeflow.io/rdma=none ff:test true) && fail "it started"
	[[ $out == *"freeflow.io/rdma=none"* ]] || fail "$out"
	rm -rf "$store"
}

with /usr
root=$(trixie_root) || skip "Debian 13's podman cannot be had here"
with "$root/usr"
exit 0
