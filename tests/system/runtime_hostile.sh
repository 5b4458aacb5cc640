#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: docker
# timeout: 480
# runtime_hostile.sh - images and containers that mean ill, or that nobody thought of, with --runtime freeflow: something else at
# each place that the hook uses, labels that are no names, a container that unmounts and moves what was laid, one that
# keeps files of the device open when it ends. The host stays as it is, and other containers have the device.
. "$(dirname "$0")/../rig/shell/lab.sh"
trap 'end_ours; end_test' EXIT

end_ours() {
	local ids
	ids=$("${docker[@]}" ps -aq --filter "label=freeflow.test=hostile")
	# shellcheck disable=SC2086
	[[ -z $ids ]] || "${docker[@]}" rm -f $ids >/dev/null
}

docker=(docker)
own_lab --containers 1
[[ -e $FF_LAB/h0/docker.private ]] || skip "the machine's own Docker has no runtime of ours"
docker+=(-H "unix://$FF_LAB/h0/docker.sock")
image=$("${docker[@]}" images --format '{{.Repository}}:{{.Tag}}' | head -n 1)
[[ -n $image ]] || fail "no image"
plain=("${docker[@]}" run --label freeflow.test=hostile)
run=("${plain[@]}" --runtime freeflow)

known() { # NAME
	router_ctl container show "$1" >/dev/null 2>&1
}

sees_device() { # WORDS...
	local out
	out=$(timeout 60 "${run[@]}" --rm --hostname well "$@" ibv_devices 2>&1)
	[[ $out == *" ff0 "* ]] || fail "$*: $out"
}

# altered SHELL-SCRIPT: an image in which that was run before.
altered() {
	"${docker[@]}" rm -f ff-alter >/dev/null 2>&1
	"${plain[@]}" --name ff-alter "$image" sh -ec "$1" || fail "$1"
	"${docker[@]}" commit ff-alter ff-hostile >/dev/null || fail "commit"
}

# It starts, or is refused with a line of ours, within a minute; afterwards the router does not know it.
starts_or_not() { # WORDS...: of docker run
	local out status
	out=$(timeout 60 "${run[@]}" --rm --hostname ill "$@" 2>&1)
	status=$?
	((status != 124)) || fail "$*: no end"
	((status == 0)) || [[ $out == *freeflow:* ]] || fail "$*: $status: $out"
	! known ill || fail "$*: the router knows it: $out"
	printf '   %s: %s\n' "$what" "$( ((status)) && sed -n 's/.*freeflow: //p' <<<"$out" | head -n 1 || echo "it starts")"
}

step "something else at each place that the hook uses"
host=$(find /etc/ld.so* /usr/lib/freeflow /run/freeflow -printf '%p %y %s %l\n' 2>/dev/null | sort)
for place in /usr/lib/freeflow /run/freeflow; do # of the others: unit/oci/test_deliver.c
	for what in 'head -c 5M /dev/zero >P' 'mkfifo P' 'mknod P c 1 5' 'ln -s /nowhere P' 'ln -s /proc/1/root/etc P' \
		'mkdir P; echo x >P/x'; do
		what=${what//P/$place}
		altered "rm -rf $place; mkdir -p ${place%/*}; $what"
		starts_or_not ff-hostile true
	done
done
[[ $(find /etc/ld.so* /usr/lib/freeflow /run/freeflow -printf '%p %y %s %l\n' 2>/dev/null | sort) == "$host" ]] ||
	fail "the host has changed"
sees_device "$image"

step "labels that are no names of devices"
for label in device-name=.. device-name=a/b "device-name=a b" device-name= device-name=-x devices=0 devices=17 devices=x; do
	out=$("${run[@]}" --rm --hostname ill --label "freeflow.io/$label" "$image" true 2>&1) && fail "$label is taken"
	[[ $out == *"freeflow.io/${label%%=*}: \"${label#*=}\" is no value of it"* ]] || fail "$label: $out"
	! known ill || fail "$label: the router knows it"
done

step "labels that are"
out=$("${run[@]}" --rm --hostname rails --label freeflow.io/device-name=mlx5_0 --label freeflow.io/devices=2 "$image" \
	sh -c 'ibv_devices; ls /sys/class/infiniband /dev/infiniband; cat /sys/class/infiniband/mlx5_1/device/infiniband_verbs/*/ibdev' 2>&1)
[[ $(grep -c '^ *mlx5_[01][[:space:]]*[0-9a-f]\{16\}' <<<"$out") == 2 && $(grep -c '^uverbs_ff[01]$' <<<"$out") == 2 &&
	$(grep -c '^mlx5_0$' <<<"$out") == 1 && $(grep -c '^mlx5_1$' <<<"$out") == 2 ]] || fail "$out"

step "a container that takes away what was laid"
"${run[@]}" -d -v /bin/busybox:/busybox:ro --cap-add SYS_ADMIN --security-opt apparmor=unconfined --security-opt seccomp=unconfined --hostname mounts \
	--name ff-mounts "$image" sleep 1000 >/dev/null || fail "run"
"${docker[@]}" exec ff-mounts sh -c 'mkdir /elsewhere /other /more
	/busybox mount -o move /run/freeflow /elsewhere && /busybox umount /usr/lib/freeflow && /busybox umount -l /sys/class &&
	/busybox umount /dev/infiniband/uverbs_ff0 &&
	rm -rf /usr/lib/freeflow /run/freeflow /etc/ld.so.cache && ln -s /other /usr/lib/freeflow && ln -s /more /run/freeflow &&
	mkfifo /etc/.freeflow.new && ln -s /nowhere /etc/ld.so.cache' || fail "it cannot"
timeout 60 "${docker[@]}" restart -t 0 ff-mounts >/dev/null || fail "it does not start again"
"${docker[@]}" exec ff-mounts ibv_devices 2>&1 | grep >/dev/null ' ff0 ' || fail "no device: $("${docker[@]}" exec ff-mounts ibv_devices 2>&1)"
"${docker[@]}" exec ff-mounts test -e /nowhere && fail "a link was followed"
"${docker[@]}" rm -f ff-mounts >/dev/null || fail "rm"
! known mounts || fail "mounts is known"

step "files of the device that are kept open when the container ends"
"${run[@]}" -d --hostname reader --name ff-reader "$image" sleep 1000 >/dev/null || fail "run"
dir=$(router_ctl --json container show reader | sed -n 's/.*"directory": "\(.*\)".*/\1/p')
exec 7<"$dir/sys/class/infiniband/ff0/ports/1/counters/port_xmit_data" 8<"$dir/sys/class/infiniband/ff0/node_guid"
read -r guid <&8 || fail "node_guid"
"${docker[@]}" rm -f ff-reader >/dev/null || fail "rm"
! known reader || fail "reader is known"
[[ ! -e $dir ]] || fail "$dir is there"
read -r count <&7 || fail "the file cannot be read any more"
[[ $guid == ????:????:????:???? && $count == 0 ]] || fail "$guid, $count"
exec 7<&- 8<&-
out=$("${run[@]}" --rm --hostname reader "$image" cat /sys/class/infiniband/ff0/node_guid 2>&1)
[[ $out == ????:????:????:???? ]] || fail "$out"
exit 0
