#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# engines: docker
# sanitized: no
# timeout: 180
# runtime_docker.sh - one flag for Docker without CDI: --runtime freeflow. Two containers of an image, restart, kill, a name of
# its own, claim while it runs; an image that cannot be served; what it costs at start.
. "$(dirname "$0")/../lib/lab.sh"
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
run=("${docker[@]}" run --label freeflow.test=runtime --runtime freeflow)
network=$("${docker[@]}" network ls -q --filter driver=bridge --no-trunc | head -n 1)
[[ -n $image && -n $network ]] || fail "no image or no network"

known() { # NAME
	router_ctl container show "$1" >/dev/null 2>&1
}

step "one flag, and the program has the device"
out=$("${run[@]}" --rm --hostname one "$image" ibv_devinfo 2>&1) || fail "$out"
[[ $out == *"hca_id:	ff0"* ]] || fail "$out"
! known one || fail "it is known after its end"

step "two containers of one image, and traffic between them"
for c in a b; do
	"${run[@]}" -d --hostname "$c" --name "ff-$c" "$image" sleep 1000 >/dev/null || fail "$c does not start"
done
"${docker[@]}" exec ff-a ibv_rc_pingpong -g 0 >"$OUT/a" 2>&1 &
server=$!
until_true 10 "${docker[@]}" exec ff-a sh -c 'grep -q :4853 /proc/net/tcp /proc/net/tcp6' || fail "nobody listens: $(<"$OUT/a")"
ip=$("${docker[@]}" inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' ff-a)
router_ctl --json container show a | grep -q "\"$ip\"" || fail "a has not its address: $(router_ctl container show a)"
"${docker[@]}" exec ff-b ibv_rc_pingpong -g 0 "$ip" >"$OUT/b" 2>&1 || fail "pingpong: $(cat "$OUT/a" "$OUT/b")"
wait $server || fail "pingpong: $(<"$OUT/a")"

step "it runs: it is in use, and nobody else is it"
router_ctl --json container show a | grep -q '"runs": "[0-9a-f]\{64\}"' || fail "$(router_ctl container show a)"
until_true 5 eval 'router_ctl container list --all | grep "^a " | grep -q yes' || fail "$(router_ctl container list --all)"
out=$("${run[@]}" --rm --hostname a "$image" true 2>&1) && fail "two containers are a"
[[ $out == *"container a runs already"* ]] || fail "$out"
known a || fail "a went with the one that was refused"
"$LAB" restart router h0 || fail "the router does not start again"
router_ctl --json container show a | grep -q '"runs": ' || fail "the next router does not know that it runs"
until_true 5 eval 'router_ctl container list --all | grep "^a " | grep -q yes' || fail "$(router_ctl container list --all)"
"${docker[@]}" exec ff-a ibv_devinfo | grep -q ff0 || fail "no device after the router's restart"

step "restart, kill, start"
"${docker[@]}" restart -t 0 ff-a >/dev/null || fail "restart"
"${docker[@]}" exec ff-a ibv_devinfo | grep -q ff0 || fail "no device after a restart"
"${docker[@]}" kill ff-a >/dev/null
until_true 10 eval '! known a' || fail "a is known after it was killed"
"${docker[@]}" start ff-a >/dev/null || fail "start"
"${docker[@]}" exec ff-a ibv_devinfo | grep -q ff0 || fail "no device after a start"

step "one that ended while the router did not run"
"$LAB" kill router h0 || fail "kill router"
"${docker[@]}" rm -f ff-b >/dev/null || fail "it cannot be removed without a router"
"$LAB" restart router h0 || fail "restart router"
router_ctl --json container show b | grep -q '"runs"' || fail "nobody told it, and it does not run"
out=$("${run[@]}" --rm --hostname b "$image" ibv_devinfo 2>&1)
[[ $out == *"hca_id:	ff0"* ]] || fail "$out"
! known b || fail "b is known after its end"

step "labels of the command line, and not the image's"
"${run[@]}" -d --hostname l --name ff-l --label freeflow.io/max-qp=5 --label freeflow.io/ip=10.99.0.8 "$image" sleep 1000 >/dev/null ||
	fail "it does not start with labels"
show=$(router_ctl --json container show l)
[[ $show == *'"max_qp": 5'* && $show == *10.99.0.8* ]] || fail "$show"
"${docker[@]}" rm -f ff-l >/dev/null || fail "rm"
"${docker[@]}" commit -c 'LABEL freeflow.io/max-qp=3' ff-a ff-labels >/dev/null || fail "commit"
"${run[@]}" -d --hostname l --name ff-l ff-labels sleep 1000 >/dev/null || fail "it does not start with the image's label"
show=$(router_ctl --json container show l)
[[ $show != *'"max_qp": 3'* ]] || fail "$show"
"${docker[@]}" rm -f ff-l >/dev/null || fail "rm"
"${docker[@]}" rmi ff-labels >/dev/null || fail "rmi"
out=$("${run[@]}" --rm --hostname one --label freeflow.io/max-cows=1 "$image" true 2>&1) && fail "a label that nobody knows"
[[ $out == *"label freeflow.io/max-cows"* ]] || fail "$out"

step "one that the operator knows keeps its address, and stays"
router_ctl container add known --ip 10.99.0.9 --max-qp 7 >/dev/null || fail "container add"
out=$("${run[@]}" --rm --hostname known "$image" ibv_devinfo -v 2>&1)
[[ $out == *10.99.0.9* ]] || fail "$out"
known known || fail "it went with its end"
! router_ctl --json container show known | grep -q '"runs"' || fail "it runs after its end"

step "users, a read-only root, no network"
out=$("${run[@]}" --rm --hostname ro --read-only --user 1000:1000 --network none "$image" ibv_devinfo 2>&1)
[[ $out == *"hca_id:	ff0"* ]] || fail "$out"

step "images that cannot be served"
mkdir -p "$OUT/musl/lib" "$OUT/none/bin"
cp /bin/busybox "$OUT/none/bin/"
cp -r "$OUT/none/bin" "$OUT/musl/"
cp /bin/busybox "$OUT/musl/lib/ld-musl-$(uname -m).so.1"
for i in musl none; do
	tar -C "$OUT/$i" -c . | "${docker[@]}" import - "ff-test:$i" >/dev/null || fail "import"
	out=$("${run[@]}" --rm --hostname bad "ff-test:$i" /bin/busybox true 2>&1) && fail "$i started"
	case $i in
	musl) [[ $out == *"freeflow cannot serve this image: it is for "*", and its C library is musl"* ]] || fail "$out" ;;
	none) [[ $out == *"there is no dynamic loader in it"* ]] || fail "$out" ;;
	esac
	! known bad || fail "bad is known"
done

step "what it costs"
ms() { # CMD...
	local begin=$EPOCHREALTIME
	"$@" >/dev/null 2>&1 || fail "$*"
	awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%d\n", (b - a) * 1000 }'
}
for ((i = 0; i < 7; i++)); do
	ms "${docker[@]}" run --rm --label freeflow.test=runtime "$image" true >>"$OUT/without"
	ms "${run[@]}" --rm --hostname cost "$image" true >>"$OUT/with"
done
without=$(sort -n "$OUT/without" | sed -n 4p)
with=$(sort -n "$OUT/with" | sed -n 4p)
echo "   start and end: $without ms without, $with ms with it (medians of 7)"
((with - without <= 100)) || fail "more than 100 ms"
exit 0
