# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nic-bench-inside.sh REPETITIONS - `make bench`'s part in a VM (tests/bench/ffbench/measures_nic.py): perftest between
# two programs that use rxe themselves ("plain"), between one of them and a container whose router has rxe ("router"),
# and between two containers by the router's own copy ("soft"), one after the other in each repetition. Prints
# "MEASURE WHO VALUE": MiB/s or microseconds, as perftest has them.
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh

PEER=10.151.9.2
port=18600

peer() { timeout 60 "$1" -d rxe0 -x 1 -F -p "$port" "${@:2}"; }
container() { # NAME GID-INDEX PROGRAM ARGS...
	timeout 60 "$LAB" exec "$1" -- "$3" -x "$2" -F -p "$port" "${@:4}"
}
nic_container() { container h0c0 "$NIC_INDEX" "$@"; }
soft_0() { container h0c0 0 "$@"; }
soft_1() { container h0c1 0 "$@"; }

# The number in that column of perftest's last line.
column() { awk -v n="$1" '$1 ~ /^[0-9]+$/ && NF >= 4 { v = $n } END { print v }'; }

one() { # MEASURE WHO COLUMN SERVER CLIENT ADDRESS PROGRAM ARGS...
	local measure=$1 who=$2 col=$3 server=$4 client=$5 address=$6 pid value
	shift 6
	((port++))
	"$server" "$@" >/tmp/server.log 2>&1 &
	pid=$!
	# until the server listens, or has ended
	until value=$(set -o pipefail; "$client" "$@" "$address" 2>/tmp/client.err | column "$col"); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	wait "$pid"
	if [[ -z $value ]]; then
		cat /tmp/server.log /tmp/client.err >&2
		failed=1
	fi
	echo "$measure $who $value"
}

all() { # MEASURE COLUMN PROGRAM ARGS...
	local measure=$1 col=$2
	shift 2
	one "$measure" plain "$col" peer peer "$PEER" "$@"
	one "$measure" router "$col" peer nic_container "$PEER" "$@"
	one "$measure" soft "$col" soft_0 soft_1 "$("$LAB" ip h0c0)" "$@"
}

nic_up 0
"$LAB" up --backend verbs --containers 2 || exit 1
NIC_INDEX=$(("$("$LAB" exec h0c0 -- ibv_devinfo -v | grep -c 'GID\[')" - 1))
for ((i = 0; i < $1; i++)); do
	all write-64k 4 ib_write_bw -s 65536 -n 300
	all send-4k 4 ib_send_bw -s 4096 -n 1000
	all write-lat-64 5 ib_write_lat -s 64 -n 1000
	all write-lat-8 5 ib_write_lat -s 8 -n 1000
done
"$LAB" down
exit "$failed"
