#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 900
# gloo.sh - gloo's collective operations over its ibverbs transport, by its own benchmark, which compares the results of
# the first round with what they have to be. Its TCP transport runs one of them after that, for its figures. Not with
# Docker, because the two processes meet by files in a folder that both can write.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/programs.sh"

needs gloo/benchmark
ROUNDS=20

# benchmark TRANSPORT OPERATION OPTIONS...: both processes end well, and a row of the result for each size.
benchmark() {
	local transport=$1 operation=$2 rank job status=0
	shift 2
	step "gloo's $operation over $transport"
	rm -rf "$OUT/meet"
	mkdir -m 777 "$OUT/meet"
	set -- "$PROGRAMS/gloo/benchmark" --size 2 --shared-path "$OUT/meet" --prefix p --transport "$transport" \
		--iteration-count $ROUNDS "$@"
	timeout 180 "$LAB" exec "$A" -- "$@" --rank 0 "$operation" >"$OUT/rank0" 2>&1 &
	job=$!
	timeout 180 "$LAB" exec "$B" -- "$@" --rank 1 "$operation" >"$OUT/rank1" 2>&1 || status=$?
	wait $job || status=$?
	if ((status)) || grep -iE 'error|mismatch|exception' "$OUT/rank0" "$OUT/rank1" ||
		! awk -v rounds=$ROUNDS 'NF == 8 && $8 == rounds { rows++ } END { exit !rows }' "$OUT/rank0"; then
		for rank in 0 1; do
			sed "s/^/  rank $rank: /" "$OUT/rank$rank"
		done
		fail "$operation over $transport ended with $status"
	fi
}

figures() {
	awk 'NF == 8 && $1 ~ /^[0-9]+$/ { print "   " $1 " bytes: p50 " $4 " us, " $7 " GB/s" }' "$OUT/rank0"
}

for operation in allreduce_ring allreduce_halving_doubling allreduce_bcube barrier_all_to_all broadcast_one_to_all \
	pairwise_exchange allgather_ring reduce_scatter; do
	moved 1000 benchmark ibverbs $operation --ib-device ff0 --elements 100000
done
moved $((100 << 20)) benchmark ibverbs allreduce_ring_chunked --ib-device ff0
figures
benchmark tcp allreduce_ring_chunked --tcp-device eth0
figures
