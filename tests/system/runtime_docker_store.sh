#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 800
# runtime_docker_store.sh - Docker with containerd's image store (Debian 13's Docker 26, feature containerd-snapshotter), whose
# folders are others than those of Docker's own store: the one flag, labels of the command line and of images.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/one_flag.sh"
. "$TREE/tests/rig/shell/trixie.sh"
. "$TREE/tests/lab/common.sh"
. "$TREE/tests/lab/image.sh"

root=$(trixie_root) || skip "Debian 13's docker.io cannot be had here"
trap 'trixie_docker_stop; end_test' EXIT

own_lab --containers 1
trixie_docker_start "$root" h0 "$OUT/docker" containerd-snapshotter || fail "dockerd does not start: $(tail -n 5 "$OUT/docker/log")"
[[ $("${docker[@]}" info -f '{{.DriverStatus}}') == *io.containerd.snapshotter* ]] || fail "$("${docker[@]}" info)"
tar=$(image_tar debian12) || skip "no image can be made here"
image=ff:debian12
"${docker[@]}" import "$tar" $image >/dev/null || fail "import"
run=("${docker[@]}" run --device freeflow.io/rdma=auto)
router_ctl cdi --write "$OUT/docker/cdi/freeflow.json" || fail "cdi --write"

flag_device
flag_pair
flag_again

step "a label: the image's part of all labels is not where this Docker keeps it elsewhere, so the start is refused"
refused() { # WORDS...: of docker run
	local out
	out=$("${run[@]}" --rm --hostname l "$@" true 2>&1) && fail "it starts: $*"
	[[ $out == *"whose they are cannot be told"*"--annotation"* ]] || fail "$*: $out"
	! known l || fail "it is known after a start that was refused"
}
refused --label freeflow.io/max-qp=5 $image
refused --label freeflow.io/tenant=red $image
"${run[@]}" --rm --hostname l --label other=x $image true || fail "another label"

step "an image that has labels of ours chooses nothing"
router_ctl container add payroll --tenant red --ip 10.88.1.7 >/dev/null || fail "container add"
for label in name=payroll tenant=red max-qp=3; do
	"${docker[@]}" commit -c "LABEL freeflow.io/$label" ff-a ff-labels >/dev/null || fail "commit"
	refused ff-labels
	refused --label freeflow.io/max-qp=5 ff-labels
done
! router_ctl --json container show payroll | grep >/dev/null '"runs"' || fail "payroll runs"

step "annotations of the command line"
for i in $image ff-labels; do
	"${run[@]}" -d --name ff-n --hostname n --annotation freeflow.io/max-qp=3 --annotation freeflow.io/tenant=blue "$i" sleep 1000 >/dev/null ||
		fail "it does not start with annotations"
	show=$(router_ctl --json container show n)
	[[ $show == *'"max_qp": 3'* && $show == *'"blue"'* ]] || fail "$show"
	"${docker[@]}" rm -f ff-n >/dev/null || fail "rm"
	wait_for 60 eval '! known n' || fail "n is known after its end"
done
exit 0
