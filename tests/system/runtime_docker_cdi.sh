#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 800
# runtime_docker_cdi.sh - one flag for Docker with CDI: --device freeflow.io/rdma=NAME, with Debian 13's Docker 26 and the
# specification that ffctl cdi writes. What runtime_docker.sh has, and: names of the specification, images of Debian 11 to 13, claim
# by another host, a network that is connected while it runs, Compose.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/one_flag.sh"
. "$TREE/tests/rig/shell/trixie.sh"
. "$TREE/tests/lab/common.sh"
. "$TREE/tests/lab/image.sh"

root=$(trixie_root) || skip "Debian 13's docker.io cannot be had here"
follower=
end_ours() {
	[[ -z $follower ]] || kill "$follower" 2>/dev/null
	trixie_docker_stop
	end_test
}
trap end_ours EXIT

own_lab --hosts 2 --containers 1
trixie_docker_start "$root" h0 "$OUT/docker" || fail "dockerd does not start: $(tail -n 5 "$OUT/docker/log")"
echo "   Docker $("${docker[@]}" version -f '{{.Server.Version}}'), $("${docker[@]}" info -f 'containerd {{.ContainerdCommit.ID}}, runc {{.RuncCommit.ID}}')"
for i in debian11 debian12 debian13; do
	tar=$(image_tar $i) || skip "no image can be made here"
	"${docker[@]}" import "$tar" "ff:$i" >/dev/null || fail "import of $i"
done
image=ff:debian12
run=("${docker[@]}" run --device freeflow.io/rdma=auto)

write_cdi() {
	router_ctl cdi --write "$OUT/docker/cdi/freeflow.json" || fail "cdi --write"
}

step "no specification, no device"
out=$("${run[@]}" --rm $image true 2>&1) && fail "it starts"
[[ $out == *"unresolvable CDI devices freeflow.io/rdma=auto"* ]] || fail "$out"
write_cdi

flag_device

step "one that the operator has added, by its name"
router_ctl container add web --ip 10.88.1.2 >/dev/null || fail "container add"
out=$("${docker[@]}" run --rm --device freeflow.io/rdma=web $image true 2>&1) && fail "the specification knows it before it is written"
[[ $out == *"unresolvable CDI devices freeflow.io/rdma=web"* ]] || fail "$out"
write_cdi
out=$("${docker[@]}" run --rm --device freeflow.io/rdma=web --hostname other $image ibv_devinfo -v) || fail "$out"
[[ $out == *10.88.1.2* ]] || fail "$out"
known web || fail "it went with its end"
! known other || fail "its host name is known"

step "a container has one device"
out=$("${run[@]}" --rm --device freeflow.io/rdma=web --hostname two $image true 2>&1) && fail "it has two"
[[ $out == *"a container has one RDMA device"* ]] || fail "$out"
! known two || fail "two is known"
! router_ctl --json container show web | grep >/dev/null '"runs"' || fail "web runs"

flag_pair
flag_sys
flag_in_use

step "another host cannot claim it while it runs, and can when it has stopped"
"${docker[@]}" run -d --device freeflow.io/rdma=web --name ff-web $image sleep 1000 >/dev/null || fail "it does not start"
out=$("$LAB" ffctl h1 -- container claim web 2>&1) && fail "h1 has it"
[[ $out == *"web"*"in use"* ]] || fail "$out"
has_device ff-web || fail "no device after the claim"
"${docker[@]}" stop -t 0 ff-web >/dev/null || fail "stop"
claims() {
	"$LAB" ffctl h1 -- container claim web >"$OUT/claim" 2>&1
}
wait_for 60 claims || fail "it has stopped: $(<"$OUT/claim")"
out=$("${docker[@]}" start ff-web 2>&1) && fail "it starts on h0 and is h1's"
[[ $out == *"there is a container \"web\" already, on host h1"* ]] || fail "$out"
"${docker[@]}" rm -f ff-web >/dev/null || fail "rm"

flag_again
flag_no_router
flag_labels

step "annotations of the command line, which no image has"
"${run[@]}" -d --name ff-n --hostname n --annotation freeflow.io/max-qp=3 --annotation freeflow.io/name=m $image sleep 1000 >/dev/null ||
	fail "it does not start with annotations"
show=$(router_ctl --json container show m)
[[ $show == *'"max_qp": 3'* ]] || fail "$show"
"${docker[@]}" rm -f ff-n >/dev/null || fail "rm"

flag_known
flag_users

step "images of Debian 11, 12 and 13"
for i in debian11 debian12 debian13; do
	"${run[@]}" -d --hostname $i --name ff-$i ff:$i sleep 1000 >/dev/null || fail "$i does not start"
	has_device ff-$i || fail "$i: no device"
	pingpong ff-a ff-$i
	pingpong ff-$i ff-a
	"${docker[@]}" rm -f ff-$i >/dev/null || fail "rm"
done

step "a network that is connected while it runs"
"$BUILD/bin/ff-hook" --admin "$FF_LAB/h0/admin.sock" follow >"$OUT/follow" 2>&1 &
follower=$!
"${docker[@]}" network create --subnet 10.61.0.0/24 more >/dev/null || fail "network create"
"${docker[@]}" network connect --ip 10.61.0.9 more ff-a || fail "network connect"
wait_for 60 eval 'router_ctl --json container show a | grep >/dev/null \"10.61.0.9\"' ||
	fail "$(router_ctl container show a): $(<"$OUT/follow")"

step "Compose"
mkdir "$OUT/compose"
cat >"$OUT/compose/compose.yaml" <<YAML
services:
  one:
    image: $image
    hostname: one
    command: sleep 1000
    labels: [freeflow.io/max-qp=9]
    deploy: &rdma
      resources: {reservations: {devices: [{driver: cdi, device_ids: [freeflow.io/rdma=auto], capabilities: [rdma]}]}}
  two:
    image: $image
    hostname: two
    command: sleep 1000
    deploy: *rdma
YAML
compose() {
	"${docker[@]}" compose -f "$OUT/compose/compose.yaml" -p ff-test "$@" >"$OUT/composed" 2>&1 || fail "compose $1: $(<"$OUT/composed")"
}
compose up -d
router_ctl --json container show one | grep >/dev/null '"max_qp": 9' || fail "$(router_ctl container show one)"
pingpong ff-test-one-1 ff-test-two-1
compose restart -t 0
pingpong ff-test-two-1 ff-test-one-1
compose down -t 0
! known one || fail "it is known after its end"

flag_bad_images
flag_cost
exit 0
