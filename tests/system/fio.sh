#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: hosts system-san
# timeout: 300
# fio.sh - fio's rdma engine: WRITE, READ and SEND, whose receiver verifies the checksum that the sender
# has put into each block. fio connects by rdma_cm and sleeps for its completions.
#
# It connects with an rnr_retry_count of 0, posts a receive again when it has looked at the one before,
# and waits on for an event after a completion with an error: a receiver with fewer receives than there
# are blocks may hang together with its sender, on any device. So it has as many here.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/cm.sh"

fio --enghelp 2>/dev/null | grep >/dev/null -w rdma || skip "no fio with its rdma engine (make deps)"
ip=$("$LAB" ip "$A")

# fio VERB BLOCK BLOCKS DEPTH SERVER-DEPTH OPTIONS...: both sides tell of all the bytes and no error, and
# the router moved them.
fio_pair() {
	local verb=$1 block=$2 bytes=$(($2 * $3)) depth=$4 server_depth=$5 sender=$B before common
	shift 5
	((++PORT))
	[[ $verb != read ]] || sender=$A
	before=$(counter "$sender" tx_bytes)
	common="--name=x --ioengine=rdma --port=$PORT --bs=$block --size=$bytes --output-format=terse --terse-version=3"
	common+=" --verify_state_save=0" # no file in the folder where this runs
	cm_pair "fio $common --rw=read --iodepth=$server_depth $*" \
		"fio $common --rw=write --iodepth=$depth --verb=$verb --hostname=$ip $*"
	# The fifth field is the error, the sixth what was read and the 47th what was written, in KB; the
	# server counts blocks that have arrived, which are those of SEND.
	awk -F ';' -v kb=$((bytes / 1024)) 'NF > 100 { ok = $5 == 0 && $47 == kb } END { exit !ok }' \
		"$OUT/client" || report_wrong
	[[ $verb != send ]] ||
		awk -F ';' -v kb=$((bytes / 1024)) 'NF > 100 { ok = $5 == 0 && $6 == kb } END { exit !ok }' \
			"$OUT/server" || report_wrong
	(($(counter "$sender" tx_bytes) - before >= bytes)) ||
		fail "the router moved $(($(counter "$sender" tx_bytes) - before)) bytes, not $bytes"
}

report_wrong() {
	cm_show
	fail "not what fio reports"
}

CM_SERVER=$A CM_CLIENT=$B
for verb in write read; do
	fio_pair $verb 65536 2000 1 1
	fio_pair $verb 4096 5000 32 32
done
fio_pair write 1048576 200 8 16
fio_pair send 65536 256 8 256 --verify=crc32c
fio_pair send 4096 500 32 500 --verify=crc32c
fio_pair send 1048576 64 2 64 --verify=md5

step "a receiver of blocks without a checksum reports them"
((++PORT))
cm_server "$A" 1 fio --name=x --ioengine=rdma --port=$PORT --bs=4096 --size=64k --rw=read --iodepth=16 \
	--verify=crc32c --verify_state_save=0
inside "$B" fio --name=x --ioengine=rdma --port=$PORT --bs=4096 --size=64k --rw=write --iodepth=1 --verb=send \
	--hostname="$ip" >"$OUT/client" 2>&1 || fail "fio ended with $?"
! wait $SERVER_JOB || fail "it verifies nothing"
said server 16 "bad magic header"
exit 0
