# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rio-bench-inside.sh REPETITIONS - `make bench`'s part in a VM (tests/bench/ffbench/measures_rio.py): two ports of
# vmport, whose link is set to RATE, well under what the VM copies; ffrio by its tools, DMA by itself (rio_raw), and verbs
# through two routers, one after the other in each repetition. Against rionet's sockets the link is as fast as the VM ("fast"):
# what the two cost is compared then. Prints "MEASURE WHO VALUE": MB/s (10^6 bytes), or per cent of a CPU.
#
# "before" is ffrio without the paper's three improvements: the request behind the copy, ends and doorbells by a work
# queue, semaphores.
# shellcheck source=/dev/null
. /out/rapidio-inside.sh
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
RATE=10000000
BLOCKS="16 64 256 1024 4096 16384 32768"
MESSAGE=16777216
BEFORE="early_request=0 top_half=0 semaphore=1"
port=18600

rate() { for i in 0 1; do echo "$1" >/sys/class/rapidio_port/rapidio$i/vmport/bandwidth; done; }

with_ffrio() { # PARAMETER... -- COMMAND...
	local with=()
	while [[ $1 != -- ]]; do
		with+=("$1")
		shift
	done
	shift
	load ffrio "${with[@]}"
	"$@"
	rmmod ffrio || fail "unload of ffrio"
}

# MEASURE WHO BYTES COUNT [OPTION]: messages; for MEASURE-cpu the sender's share of a CPU.
perf() {
	local out
	/tmp/ffrio_perf -p 1 -l "${@:5}" &
	await /tmp/ffrio_perf -n 1 -s 16 "$id" >/dev/null
	out=$(/tmp/ffrio_perf -n "$4" -s "$3" "${@:5}" "$id") || fail "$*"
	kill $!
	wait
	awk -v m="$1" -v w="$2" '{ print m, w, $6; print m "-cpu", w, $8 }' <<<"$out"
}

blocks() {
	local b
	for b in $BLOCKS; do
		# shellcheck disable=SC2086 # parameters
		with_ffrio $BEFORE block_size="$b" -- perf "block-$b" before $((b * 300)) 1
		with_ffrio block_size="$b" -- perf "block-$b" after $((b * 300)) 1
	done
}

# rionet's two interfaces, each in a namespace of its own.
rionet_up() {
	load rionet
	ip netns add n0
	ip netns add n1
	ip link set eth0 netns n0
	ip link set eth1 netns n1
	ip -n n0 addr add 10.7.0.1/24 dev eth0
	ip -n n1 addr add 10.7.0.2/24 dev eth1
	ip -n n0 link set eth0 up
	ip -n n1 link set eth1 up
	await ip netns exec n0 ping -q -c 1 -W 1 10.7.0.2 >/dev/null
}

rionet() {
	ip netns exec n1 iperf3 -s -1 >/dev/null &
	await listens_in n1 5201
	ip netns exec n0 iperf3 -c 10.7.0.2 -t 3 -J >/tmp/iperf.json || fail iperf3
	wait $!
	python3 -c 'import json; print("fast rionet", json.load(open("/tmp/iperf.json"))["end"]["sum_received"]["bits_per_second"] / 8e6)'
}
listens_in() { ip netns exec "$1" ss -Hltn "sport = :$2" | grep -q .; }

rionet_down() {
	rmmod rionet || fail "unload of rionet"
	ip netns del n0
	ip netns del n1
}

verbs() { # MEASURE PROGRAM ARGS...
	local measure=$1 pid
	shift
	((port++))
	timeout 60 "$LAB" exec h0c0 -- "$@" -p "$port" >/tmp/server.log 2>&1 &
	pid=$!
	await listens "$port"
	timeout 60 "$LAB" exec h1c0 -- "$@" -p "$port" "$("$LAB" ip h0c0)" >/tmp/client.log 2>&1 ||
		{ cat /tmp/client.log; failed=1; }
	wait "$pid" || failed=1
	# perftest has MiB/s
	awk -v m="$measure" '$1 ~ /^[0-9]+$/ && NF >= 4 { v = $4 } END { print m, "verbs", v * 1.048576 }' /tmp/client.log
}
listens() { "$LAB" exec h0c0 -- ss -Hltn "sport = :$1" | grep -q .; }
by_rio() { [[ $(grep -c 'by RapidIO' /tmp/lab/"$1"/ffr.log) -gt 0 ]]; }

lab_ports 2 /out/ffrio_ping /out/ffrio_perf /out/rio_raw
id=$(cat /sys/class/rapidio_port/rapidio1/port_destid)
rionet_up
for ((i = 0; i < $1; i++)); do rionet; done
rionet_down
for ((i = 0; i < $1; i++)); do with_ffrio -- perf fast copy $MESSAGE 2; done
rate $RATE
for ((i = 0; i < $1; i++)); do
	echo "message raw $(/tmp/rio_raw 0 1 16)"
	with_ffrio -- perf message copy $MESSAGE 1
	with_ffrio -- perf message in-place $MESSAGE 1 -z
	blocks
done
load ffrio
"$LAB" up --hosts 2 --containers 1 --backend rio || exit 1
verbs warm ib_write_bw -x 0 -F -n 20 -s 65536
await by_rio h0
await by_rio h1
for ((i = 0; i < $1; i++)); do verbs message ib_write_bw -x 0 -F -n 1024 -s 65536; done
"$LAB" down
rmmod ffrio || fail "unload of ffrio"
exit "$failed"
