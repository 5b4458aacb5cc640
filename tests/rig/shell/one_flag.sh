# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# one_flag.sh - what a user of Docker sees of the one flag, whichever flag that is: the steps of tests of it. Sourced after
# lab.sh. The test has an engine and says:
#
#	docker	an array: the client
#	run	an array: docker run with the flag, for a container that is known by its host name
#	image	a Debian image of that engine
#
# A step may use containers of the steps before it: ff-a and ff-b, whose host names are a and b.

known() { # NAME
	router_ctl container show "$1" >/dev/null 2>&1
}

in_use() { # NAME
	router_ctl container list --all | grep "^$1 " | grep >/dev/null yes
}

# Has a program in that running container the device?
has_device() { # CONTAINER
	"${docker[@]}" exec "$1" ibv_devinfo | grep >/dev/null ff0
}

# A run that ends: its program has the device.
sees_device() { # WORDS...: of docker run, without the program
	local out
	out=$("${run[@]}" --rm "$@" ibv_devinfo 2>&1)
	[[ $out == *"hca_id:	ff0"* ]] || fail "$*: $out"
}

flag_device() {
	step "one flag, and the program has the device"
	sees_device --hostname one "$image"
	! known one || fail "it is known after its end"
}

pingpong() { # SERVER CLIENT: containers that run
	local ip server
	"${docker[@]}" exec "$1" ibv_rc_pingpong -g 0 >"$OUT/a" 2>&1 &
	server=$!
	wait_for 60 "${docker[@]}" exec "$1" sh -c 'grep -q ":4853 [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6' || fail "nobody listens: $(<"$OUT/a")"
	ip=$("${docker[@]}" inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$1")
	"${docker[@]}" exec "$2" ibv_rc_pingpong -g 0 "$ip" >"$OUT/b" 2>&1 || fail "pingpong: $(cat "$OUT/a" "$OUT/b")"
	wait $server || fail "pingpong: $(<"$OUT/a")"
}

flag_pair() {
	local c ip
	step "two containers of one image, and traffic between them"
	for c in a b; do
		"${run[@]}" -d --hostname "$c" --name "ff-$c" "$image" sleep 1000 >/dev/null || fail "$c does not start"
	done
	ip=$("${docker[@]}" inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' ff-a)
	router_ctl --json container show a | grep >/dev/null "\"$ip\"" || fail "a has not its address: $(router_ctl container show a)"
	pingpong ff-a ff-b
}

# ff-a runs.
flag_sys() {
	local in=("${docker[@]}" exec ff-a) net=ff-test-$$ classes link=/sys/class/infiniband/ff0
	step "the device in /sys/class, beside the other classes"
	classes=$("${docker[@]}" run --rm --label freeflow.test=runtime "$image" ls /sys/class) || fail "no /sys/class"
	[[ $("${in[@]}" ls /sys/class) == "$({ echo "$classes"; echo infiniband; echo infiniband_verbs; } | sort -u)" ]] ||
		fail "/sys/class: $("${in[@]}" ls /sys/class)"
	[[ $("${in[@]}" ls /sys/class/infiniband) == ff0 ]] || fail "$("${in[@]}" ls /sys/class/infiniband)"
	[[ $("${in[@]}" cat $link/ports/1/gid_attrs/types/0) == *RoCE* ]] || fail "types"
	[[ $("${in[@]}" readlink -f $link/device/infiniband/ff0) == "$("${in[@]}" readlink -f $link)" ]] || fail "device"
	[[ $("${in[@]}" readlink -f $link/device/net/eth0) == "$("${in[@]}" readlink -f /sys/class/net/eth0)" &&
		$("${in[@]}" cat /sys/class/net/eth0/address) == ??:??:??:??:??:?? ]] || fail "device/net"
	"${in[@]}" sh -c 'mkdir /sys/class/x || touch /sys/class/infiniband/x' 2>/dev/null && fail "it can be written to"
	"${docker[@]}" network create "$net" >/dev/null || fail "network create"
	"${docker[@]}" network connect "$net" ff-a || fail "network connect"
	[[ $("${in[@]}" ls /sys/class/net | grep eth) == $'eth0\neth1' ]] || fail "interfaces: $("${in[@]}" ls /sys/class/net)"
	"${docker[@]}" network disconnect "$net" ff-a || fail "network disconnect"
	"${docker[@]}" network rm "$net" >/dev/null || fail "network rm"
	[[ $("${docker[@]}" run --rm --label freeflow.test=runtime "$image" ls /sys/class) == "$classes" ]] ||
		fail "another container has other classes"
}

flag_in_use() {
	local out
	step "it runs: it is in use, and nobody else is it"
	router_ctl --json container show a | grep >/dev/null '"runs": "[0-9a-f]\{64\}"' || fail "$(router_ctl container show a)"
	wait_for 60 in_use a || fail "$(router_ctl container list --all)"
	out=$("${run[@]}" --rm --hostname a "$image" true 2>&1) && fail "two containers are a"
	[[ $out == *"container a runs already"* ]] || fail "$out"
	known a || fail "a went with the one that was refused"
	"$LAB" restart router h0 || fail "the router does not start again"
	wait_for 60 known a || fail "the next router does not know it"
	router_ctl --json container show a | grep >/dev/null '"runs": ' || fail "the next router does not know that it runs"
	wait_for 60 in_use a || fail "$(router_ctl container list --all)"
	has_device ff-a || fail "no device after the router's restart"
}

flag_again() {
	step "restart, kill, start"
	"${docker[@]}" restart -t 0 ff-a >/dev/null || fail "restart"
	has_device ff-a || fail "no device after a restart"
	"${docker[@]}" kill ff-a >/dev/null
	wait_for 60 eval '! known a' || fail "a is known after it was killed"
	"${docker[@]}" start ff-a >/dev/null || fail "start"
	has_device ff-a || fail "no device after a start"
}

flag_no_router() {
	local out
	step "one that ended while the router did not run"
	"$LAB" kill router h0 || fail "kill router"
	out=$("${run[@]}" --rm --hostname c "$image" true 2>&1) && fail "it starts without a router"
	[[ $out == *"is ffr running?"* ]] || fail "$out"
	"${docker[@]}" rm -f ff-b >/dev/null || fail "it cannot be removed without a router"
	"$LAB" restart router h0 || fail "restart router"
	wait_for 60 known b || fail "the next router does not know it"
	router_ctl --json container show b | grep >/dev/null '"runs"' || fail "nobody told it, and it does not run"
	sees_device --hostname b "$image"
	! known b || fail "b is known after its end"
}

flag_labels() {
	local show out label
	step "labels of the command line"
	"${run[@]}" -d --hostname l --name ff-l --label freeflow.io/max-qp=5 --label freeflow.io/tenant=red \
		--label freeflow.io/ip=10.99.0.8 "$image" sleep 1000 >/dev/null || fail "it does not start with labels"
	show=$(router_ctl --json container show l)
	[[ $show == *'"max_qp": 5'* && $show == *'"red"'* && $show == *10.99.0.8* ]] || fail "$show"
	"${docker[@]}" rm -f ff-l >/dev/null || fail "rm"
	"${docker[@]}" commit -c 'LABEL freeflow.io/max-qp=3' ff-a ff-labels >/dev/null || fail "commit"
	step "an image with such labels: they could be anybody's"
	for label in freeflow.io/tenant=blue other=x; do
		out=$("${run[@]}" --rm --hostname l --label $label ff-labels true 2>&1) && fail "it starts with the image's label"
		[[ $out == *"whose they are cannot be told"* ]] || fail "$out"
		! known l || fail "it is known after a start that was refused"
	done
	# The engine takes them from version 25 on.
	if (($("${docker[@]}" version -f '{{.Server.Version}}' | cut -d . -f 1) >= 25)); then
		"${run[@]}" -d --hostname l --name ff-l --annotation freeflow.io/max-qp=6 ff-labels sleep 1000 >/dev/null ||
			fail "it does not start with an annotation"
		show=$(router_ctl --json container show l)
		[[ $show == *'"max_qp": 6'* ]] || fail "$show"
		"${docker[@]}" rm -f ff-l >/dev/null || fail "rm"
	fi
	"${docker[@]}" rmi ff-labels >/dev/null || fail "rmi"
	out=$("${run[@]}" --rm --hostname one --label freeflow.io/max-cows=1 "$image" true 2>&1) && fail "a label that nobody knows"
	[[ $out == *"freeflow.io/max-cows"* ]] || fail "$out"
}

flag_known() {
	local out
	step "one that the operator knows keeps its address, and stays"
	router_ctl container add known --ip 10.99.0.9 --max-qp 7 >/dev/null || fail "container add"
	out=$("${run[@]}" --rm --hostname known "$image" ibv_devinfo -v 2>&1)
	[[ $out == *10.99.0.9* ]] || fail "$out"
	known known || fail "it went with its end"
	! router_ctl --json container show known | grep >/dev/null '"runs"' || fail "it runs after its end"
}

flag_users() {
	step "users, a read-only root, no network, the host's"
	sees_device --hostname ro --read-only --user 1000:1000 --network none "$image"
	sees_device --hostname net --network host "$image"
}

flag_bad_images() {
	local i out
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
}

ms() { # CMD...
	local begin=$EPOCHREALTIME
	"$@" >/dev/null 2>&1 || fail "$*"
	awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", (b - a) * 1000 }'
}

median() { # FILE
	sort -n "$1" | awk '{ v[NR] = $1 } END { printf "%.0f\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

cost_pair() {
	ms "${docker[@]}" run --rm "$image" true >>"$OUT/without"
	ms "${run[@]}" --rm --hostname cost "$image" true >>"$OUT/with"
}

fastest() { # FILE
	sort -n "$1" | sed -n '1s/[.].*//p'
}

# Without the flag, with it, and so on: what else the machine does meets both. It is told, and judged where FF_PAIRS says how
# many, on a machine that does nothing else.
flag_cost() {
	local i pairs=${FF_PAIRS:-7} load
	step "what it costs"
	rm -f "$OUT"/{without,with}
	for ((i = 0; i < pairs; i++)); do
		cost_pair
	done
	read -r load _ </proc/loadavg
	echo "   start and end: $(median "$OUT/without") ms without, $(median "$OUT/with") ms with it (medians of $pairs); the fastest" \
		"$(fastest "$OUT/without") and $(fastest "$OUT/with") ms; load $load"
	[[ -z ${FF_PAIRS-} ]] || (($(median "$OUT/with") - $(median "$OUT/without") <= 100)) || fail "more than 100 ms"
}
