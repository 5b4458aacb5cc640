#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: docker
# timeout: 480
# runtime_docker.sh - one flag for Docker without CDI: --runtime freeflow. Two containers of an image, restart, kill, a name of
# its own, claim while it runs; an image that cannot be served; what it costs at start. runtime_docker_cdi.sh is the same with CDI.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/one_flag.sh"
trap 'end_ours; end_test' EXIT

end_ours() {
	local ids
	ids=$("${docker[@]}" ps -aq --filter "label=freeflow.test=runtime")
	# shellcheck disable=SC2086
	[[ -z $ids ]] || "${docker[@]}" rm -f $ids >/dev/null
}

docker=(docker)
own_lab --containers 1
[[ -e $FF_LAB/h0/docker.private ]] || skip "the machine's own Docker has no runtime of ours"
docker+=(-H "unix://$FF_LAB/h0/docker.sock")
image=$("${docker[@]}" images --format '{{.Repository}}:{{.Tag}}' | head -n 1)
[[ -n $image ]] || fail "no image"
# shellcheck disable=SC2034 # one_flag.sh's
run=("${docker[@]}" run --label freeflow.test=runtime --runtime freeflow)

flag_device
flag_pair
flag_sys
flag_in_use
flag_again
flag_no_router
flag_labels
flag_known
flag_users
flag_bad_images
flag_cost
exit 0
