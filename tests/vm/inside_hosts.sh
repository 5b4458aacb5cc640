# shellcheck shell=bash disable=SC2034 # the scripts that source this use them
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# inside_hosts.sh - what nic-hosts.sh, nics-hosts.sh and siw-hosts.sh share in each of their two VMs, a and b. Each VM has a
# router of one cluster; a has the orchestrator. Programs in a listen, and those in b connect, in the same order. Sourced,
# with a or b as the script's first argument.
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
me=$1
declare -A last=([a]=1 [b]=2) # last byte of the VM's addresses
FFCTL=("$TREE/build/bin/ffctl" --admin /run/ff/run/admin.sock)

# eth_up N: gives the VM's interface ethN its address in network N.
eth_up() {
	modprobe virtio_net
	until [[ -e /sys/class/net/eth$1 ]]; do sleep 0.1; done
	ip addr add "10.151.$((9 + $1)).${last[$me]}/24" dev "eth$1"
	ip link set "eth$1" up
}

# router_up LINE...: starts the router with these lines in its configuration. The routers' wire is in network 0.
router_up() {
	mkdir -p /run/ff
	if [[ $me == a ]]; then
		tell_server
		"$TREE/build/bin/ffo" --store /run/ff/ffo.db --listen tcp:10.151.9.1:7470 \
			--pool4 10.88.0.0/24 >/out/ffo.log 2>&1 &
	fi
	cat >/run/ff/ffr.conf <<-CONF
	runtime_dir = "/run/ff/run"
	hostname = "h$me"
	orchestrator = "tcp:10.151.9.1:7470"
	cluster = "vm"
	wire_listen = "tcp:10.151.9.${last[$me]}:7471"
	wire_tls = false
	CONF
	printf '%s\n' "$@" >>/run/ff/ffr.conf
	until (: </dev/tcp/10.151.9.1/7470) 2>/dev/null; do
		((SECONDS < 60)) || exit 1
		sleep 0.2
	done
	"$TREE/build/bin/ffr" --config /run/ff/ffr.conf >/out/ffr.log 2>&1 &
	router=$!
	until "${FFCTL[@]}" ping >/dev/null 2>&1; do
		((SECONDS < 90)) || { cat /out/*.log; exit 1; }
		sleep 0.2
	done
}

# Runs the command as a program of the container: its RDMA device is the router's.
inside() { # CONTAINER CMD...
	FFL_SOCKET=/run/ff/run/containers/$1/ffr.sock LD_LIBRARY_PATH=$TREE/build/lib \
		timeout 60 "${@:2}"
}

# pair NAME AT-A AT-B PROGRAM ARGS... -p PORT...: checks a pair of programs, the server in a and the client in b. Both VMs go on
# when both programs have ended, so a program that fails is the only one that does. AT is a container, or `host` for a program
# beside the router. The server also has the arguments SERVER_ARGS, and the client CLIENT_ARGS. BY_CM is set if the server
# listens with an rdma_cm that shows no socket: the client, when it is refused, then starts again.
pair() {
	local name=$1 where=$2 port
	[[ $me == a ]] || where=$3
	shift 3
	port=$(port_of "$@")
	if [[ $where == host ]]; then
		set -- timeout 60 "$@"
	else
		set -- inside "$where" "$@"
	fi
	if [[ $me == a ]]; then
		keep_step "$port" &
		check "$name" "$@" "${SERVER_ARGS[@]}"
		wait $!
	else
		until_is told "$port" || failed=1
		check "$name" client "$@" "${CLIENT_ARGS[@]}"
		echo "$port" >/dev/tcp/10.151.9.1/7001
	fi
}
SERVER_ARGS=() CLIENT_ARGS=(10.151.9.1) BY_CM=

port_of() { # ARGS...: prints the argument behind -p
	while [[ $1 != -p ]]; do shift; done
	echo "$2"
}

# Runs in a: tells b that the server listens, so that b starts the client.
tell_when_it_listens() { # PORT
	[[ -n $BY_CM ]] || until_is listens "$1"
	echo "$1" >>/run/ff/listens
}
listens() { ss -Hltn "sport = :$1" | grep >/dev/null .; }

# Runs in a for one pair of programs. When b says that the client has ended, it ends the server, however the client ended.
keep_step() { # PORT
	local i
	tell_when_it_listens "$1"
	until grep -qx "$1" /run/ff/ended 2>/dev/null; do sleep 0.1; done
	# The server may still be about to read the client's last message, so it has 5 s to end by itself.
	for ((i = 0; i < 50; i++)); do
		pgrep -f -- "-p $1( |\$)" >/dev/null || return
		sleep 0.1
	done
	pkill -f -- "-p $1( |\$)"
}

# Runs in a: b can read on port 7000 which ports have a listener, and can write on port 7001 which clients have ended.
tell_server() {
	perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 8, LocalPort => 7000) or die;
		while ($c = $l->accept) { open $f, "<", "/run/ff/listens"; print {$c} <$f>; close $c }' &
	perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 8, LocalPort => 7001) or die;
		while ($c = $l->accept) { open $f, ">>", "/run/ff/ended"; print {$f} <$c>; close $f; close $c }' &
}

# told WORD: has a told this word?
told() { { cat </dev/tcp/10.151.9.1/7000 | grep >/dev/null -x "$1"; } 2>/dev/null; }

# Runs a client. One that an rdma_cm refused has come before the server listens, and starts again, up to 100 times.
client() {
	local i status
	for ((i = 0; i < 100; i++)); do
		"$@" >/out/client.log 2>&1
		status=$?
		[[ -n $BY_CM ]] || break
		grep -qE "REJECTED, error|UNREACHABLE|Connection refused" /out/client.log || break
		sleep 0.2
	done
	cat /out/client.log
	echo "client: status $status" # the last lines are what a failed check shows, and standard error comes first
	((status == 0)) && ! grep -iE "fail|error" /out/client.log
}

# by_cm ADDRESS PORT NAME AT-A AT-B: checks rping to that address.
by_cm() {
	local SERVER_ARGS=(-s) CLIENT_ARGS=(-c -a "$1") BY_CM=1
	pair "$3" "$4" "$5" rping -p "$2" -C 50 -v
}

# Prints how many packets the NIC has sent since it was made.
packets() { cat "/sys/class/infiniband/${1:-rxe0}/ports/1/hw_counters/sent_pkts" 2>/dev/null || echo 0; }
more_packets_than() { (($(packets "$1") > $2)); }

# says PATTERN: waits until the router's log has the pattern.
says() { until_is grep -q "$1" /out/ffr.log; }
