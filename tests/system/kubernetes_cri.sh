#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 480
# kubernetes_cri.sh - pods by the CRI socket of Debian 13's containerd 1.7, as a kubelet makes them (tests/rig/tools/cri.py), with the
# CDI device that ff-device-plugin names: tenant, limits, addresses, traffic between pods, what a pod may not say, ends.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/trixie.sh"
. "$TREE/tests/lab/common.sh"
. "$TREE/tests/lab/image.sh"

/usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null || skip "no python3-grpcio (make deps)"
command -v protoc >/dev/null || skip "no protobuf-compiler (make deps)"
root=$(trixie_root) || skip "Debian 13's containerd cannot be had here"
tar=$(image_tar debian12) || skip "no image can be made here"
mkdir "$OUT/kubelet" "$OUT/cri"
protoc -I "$TREE/ffr/k8s" --python_out "$OUT" "$TREE/ffr/k8s/deviceplugin.proto" || fail "protoc"
protoc -I "$TREE/tests/rig/tools" --python_out "$OUT/cri" "$TREE/tests/rig/tools/cri.proto" || fail "protoc"

group=/freeflow-test-$$ # where the pods' cgroups are
pods=()
cri() { # COMMAND WORDS...
	GRPC_VERBOSITY=NONE /usr/bin/python3 "$TREE/tests/rig/tools/cri.py" "$OUT/containerd/containerd.sock" "$OUT/cri" "$@"
}
end_ours() {
	local p
	for p in "${pods[@]}"; do
		cri end "$p" >/dev/null 2>&1
	done
	[[ -z ${CONTAINERD_PID-} ]] || kill "$CONTAINERD_PID" 2>/dev/null
	cat /sys/fs/cgroup/{pids,}"$group"/*/cgroup.procs 2>/dev/null | xargs -r kill -KILL
	end_test
	rmdir /sys/fs/cgroup/{,*/}"$group" 2>/dev/null
}
trap end_ours EXIT

own_lab --containers 1
trixie_containerd_start "$root" h0 "$OUT/containerd" 10.60.0.0/24 ||
	fail "containerd does not start: $(tail -n 5 "$OUT/containerd/log")"
echo "   $("${ctr[@]}" version | grep -m 1 Version)"
mkdir -p "$OUT/pause/bin"
cp /bin/busybox "$OUT/pause/bin/" || skip "no busybox-static (make deps)"
tar -C "$OUT/pause" -cf "$OUT/pause.tar" .
trixie_image "$OUT/pause.tar" "$(pause_image)" "$OUT/image" || fail "import: $(<"$OUT/image/log")"
image=freeflow.test/debian12:1
trixie_image "$tar" $image "$OUT/image" || fail "import: $(<"$OUT/image/log")"
wait_for 60 cri ready >"$OUT/ready" 2>&1 || fail "not ready: $(tail -n 3 "$OUT/ready")"
router_ctl cdi --write "$OUT/containerd/cdi/freeflow.json" || fail "cdi --write"

step "what the plug-in allocates"
"$BUILD/bin/ff-device-plugin" --kubelet "$OUT/kubelet" --admin "$FF_LAB/h0/admin.sock" >"$OUT/plugin" 2>&1 &
device=$(printf '%s\n' registered 'allocate rdma0' |
	GRPC_VERBOSITY=NONE /usr/bin/python3 "$TREE/tests/rig/tools/kubelet.py" "$OUT/kubelet" "$OUT" | sed -n '$s/.*\[\["\(.*\)"\]\].*/\1/p')
[[ $device == freeflow.io/rdma=kubernetes ]] || fail "$device: $(<"$OUT/plugin")"

# pod NAMESPACE NAME [ANNOTATION...]: POD; container NAME [DEVICE]: CONT, which runs in POD
pod() {
	POD=$(cri pod "$group" "$@") || fail "RunPodSandbox $*"
	pods+=("$POD")
}
container() {
	CONT=$(cri create "$POD" "$1" $image "${2:-$device}" sleep 100000) || fail "CreateContainer $1"
	cri start "$CONT" || fail "StartContainer $1"
}
known() { # NAME
	router_ctl container show "$1" >/dev/null 2>&1
}

step "a pod with the device"
pod red a freeflow.io/max-qp=64 freeflow.io/rate=10Gbit
container app
a=$CONT a_pod=$POD a_ip=$(cri ip "$POD")
[[ $a_ip == 10.60.0.* ]] || fail "its address: $a_ip"
out=$(cri exec "$a" ibv_devinfo -v) || fail "$out"
[[ $out == *"hca_id:	ff0"* && $out == *"::ffff:$a_ip"* ]] || fail "$out"
show=$(router_ctl --json container show red.a.app) || fail "$(router_ctl container list)"
for want in '"tenant": "red"' "\"ips\": [\"$a_ip\"]" '"max_qp": 64' '"tx_rate": 1250000000' "\"runs\": \"$a\""; do
	[[ $(tr -s ' \n' ' ' <<<"$show" | sed 's/\[ /[/g; s/ \]/]/g') == *"$want"* ]] || fail "not $want: $show"
done

pingpong() { # SERVER ADDRESS CLIENT
	cri exec "$1" ibv_rc_pingpong -g 0 >"$OUT/server" 2>&1 &
	SERVER=$!
	wait_for 60 cri exec "$1" grep -q ":4853 [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6 || fail "nobody listens: $(<"$OUT/server")"
	cri exec "$3" ibv_rc_pingpong -g 0 "$2" >"$OUT/client" 2>&1 || return 1
	wait $SERVER || fail "pingpong: $(<"$OUT/server")"
}

step "two pods of a namespace; the second one's device by the annotation"
pod red b
container app "annotation:$device"
b=$CONT
pingpong "$a" "$a_ip" "$b" || fail "pingpong: $(cat "$OUT/server" "$OUT/client")"
pingpong "$b" "$(cri ip "$POD")" "$a" || fail "pingpong: $(cat "$OUT/server" "$OUT/client")"

step "of two namespaces: where the policy allows it"
pod blue c
container app
! pingpong "$a" "$a_ip" "$CONT" || fail "blue reaches red"
router_ctl policy allow red blue || fail "policy"
cri exec "$a" pkill ibv_rc_pingpong # that server waits for ever
wait $SERVER
pingpong "$a" "$a_ip" "$CONT" || fail "pingpong: $(cat "$OUT/server" "$OUT/client")"

step "without the device, no device; a second container of a pod has none of its addresses"
container plain -
out=$(cri exec "$CONT" ibv_devices)
[[ $out != *ff0* ]] || fail "$out"
container more
show=$(router_ctl container show blue.c.more | grep '^addresses')
[[ $show != *"$(cri ip "$POD")"* ]] || fail "$show"

step "what a pod may not say"
for word in tenant=red name=web ip=10.60.0.99 max-cows=1; do
	pod green "${word%%=*}" "freeflow.io/$word"
	CONT=$(cri create "$POD" app $image "$device" sleep 100000) || fail "CreateContainer $word"
	out=$(cri start "$CONT" 2>&1) && fail "$word: it starts"
	[[ $out == *"annotation freeflow.io/${word%%=*}"*"is not a pod's to say"* ]] || fail "$word: $out"
	cri end "$POD" || fail "RemovePodSandbox"
done
for word in max-qp=70000 max-mr=unlimited weight=101 latency=yes; do
	pod green "${word%%=*}" "freeflow.io/$word"
	CONT=$(cri create "$POD" app $image "$device" sleep 100000) || fail "CreateContainer $word"
	out=$(cri start "$CONT" 2>&1) && fail "$word: it starts"
	[[ $out == *"not ask for more than the host's default"* ]] || fail "$word: $out"
	cri end "$POD" || fail "RemovePodSandbox"
done
! router_ctl container list | grep >/dev/null green || fail "$(router_ctl container list)"

step "a container that stops, and the next one in its place"
cri stop "$a" || fail "StopContainer"
wait_for 60 eval '! known red.a.app' || fail "it is known after its end"
cri remove "$a" || fail "RemoveContainer"
POD=$a_pod
container app
out=$(cri exec "$CONT" ibv_devinfo -v) || fail "$out"
[[ $out == *"::ffff:$a_ip"* ]] || fail "$out"

step "pods that go"
for p in "${pods[@]}"; do
	cri end "$p" || fail "RemovePodSandbox"
done
wait_for 60 eval '! router_ctl container list | grep >/dev/null -E "red|blue"' || fail "$(router_ctl container list)"
pods=()
exit 0
