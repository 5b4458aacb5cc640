#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: hosts
# timeout: 300
# Not sanitized: libiscsi has its SGEs at odd addresses.
# iser.sh - a disk over iSER: tgt exports a file, QEMU's block driver on libiscsi writes patterns to it,
# reads and compares them, and the file has them. `make deps` does not install tgt, since its package
# starts a daemon for the whole machine.
#
# libiscsi 1.19 has 256 KB buffers for iSER, and crashes (iscsi_synchronizecache10_task) after a larger
# request. tgt lets nobody in over iSER whose name is not bound to the target.
. "$(dirname "$0")/../rig/shell/lab.sh"

for need in tgtd tgtadm qemu-io; do
	command -v $need >/dev/null || skip "no $need (packages tgt, qemu-utils, qemu-block-extra)"
done
compgen -G "/usr/lib/*/qemu/block-iscsi.so" >/dev/null || skip "no qemu-block-extra"

TARGET=iqn.2026-11.freeflow:disk INITIATOR=iqn.2026-11.freeflow:me
ip=$("$LAB" ip "$A")
truncate -s 64M "$OUT/disk"

tgtadm() {
	inside "$A" env TGT_IPC_SOCKET="$OUT/tgt" tgtadm --lld iser "$@"
}

answers() {
	tgtadm --mode target --op show >/dev/null 2>&1 && (($(counter "$A" cm_listeners) > 0))
}

"$LAB" exec "$A" -- env TGT_IPC_SOCKET="$OUT/tgt" tgtd -f >"$OUT/server" 2>&1 </dev/null &
wait_for 60 answers || server_failed tgtd
if ! tgtadm --mode target --op new --tid 1 --targetname $TARGET ||
	! tgtadm --mode logicalunit --op new --tid 1 --lun 1 -b "$OUT/disk" ||
	! tgtadm --mode target --op bind --tid 1 -I ALL ||
	! tgtadm --mode target --op bind --tid 1 -Q $INITIATOR; then
	server_failed tgtadm
fi

# Each block of one size is written with a pattern of its own, then all are read.
sizes=(512 4k 64k 256k)
commands=() n=0
for do in write read; do
	for i in "${!sizes[@]}"; do
		for k in 0 1 2 3 4 5 6 7; do
			commands+=(-c "$do -P $((i * 16 + k + 1)) $((i * 8 + k))M ${sizes[i]}")
			((++n))
		done
	done
done
before=$(counter "$A" tx_bytes)
step "$n requests of ${sizes[*]}"
timeout 90 "$LAB" exec "$B" -- qemu-io --image-opts \
	"driver=iscsi,transport=iser,portal=$ip:3260,target=$TARGET,lun=1,initiator-name=$INITIATOR" \
	"${commands[@]}" >"$OUT/client" 2>&1 </dev/null || {
	cat "$OUT/client" "$OUT/server"
	fail "qemu-io ended with $?"
}
if (($(grep -c ' bytes at offset ' "$OUT/client") != n)) || grep -i 'verification failed' "$OUT/client"; then
	cat "$OUT/client"
	fail "not what qemu-io prints"
fi
for i in "${!sizes[@]}"; do
	bytes=$(numfmt --from=iec "${sizes[i]^^}")
	for k in 0 1 2 3 4 5 6 7; do
		printf -v byte '\\%03o' $((i * 16 + k + 1))
		cmp -n "$bytes" -i $(((i * 8 + k) << 20)):0 "$OUT/disk" <(head -c "$bytes" /dev/zero | tr '\0' "$byte") ||
			fail "the disk has not what was written at $((i * 8 + k)) MB"
	done
done
(($(counter "$A" tx_bytes) - before >= 8 * (256 + 64 + 4) * 1024)) || fail "the router moved too little"
exit 0
