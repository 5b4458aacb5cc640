#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 900
# numbers.sh - an attacker knows all numbers of a victim's objects: of its XRC domains, SRQs and QPs, its rkeys and addresses.
# The attacker is in a container of the same tenant or of another one, on the same host or on another one. An attacker that may
# talk to the victim reaches what it was given, and not one byte more; one that may not reaches nothing. When a container of
# another tenant takes the victim's name and address, the connections and keys of the time before are worth nothing.
. "$(dirname "$0")/../rig/shell/lab.sh"

own_lab --hosts 2 --containers 2
numbers=$BUILD/tests/hostile/numbers
mkfifo "$OUT/to_victim" "$OUT/to_attacker"
exec 6<>"$OUT/to_victim" 7<>"$OUT/to_attacker" # so that neither sees an end

victim_begin() {
	{
		"$LAB" exec h0c0 -- "$numbers" victim <"$OUT/to_victim" >"$OUT/to_attacker" 2>"$OUT/victim"
		[[ $? != 1 ]] || echo "the victim has failed" >&7
	} &
	victim=$!
}

victim_end() {
	running "$victim" || fail "the victim: $(cat "$OUT/victim")"
	"$LAB" stop h0c0 || fail "lab stop"
	wait "$victim"
	"$LAB" start h0c0 || fail "lab start"
}

attack() { # PART CONTAINER
	step "$1 in $2"
	victim_begin
	timeout 300 "$LAB" exec "$2" -- "$numbers" "$1" <"$OUT/to_attacker" >"$OUT/to_victim" 2>"$OUT/attack" ||
		fail "$(cat "$OUT/attack" "$OUT/victim")"
	cat "$OUT/attack"
	victim_end
}

# into_tenant CONTAINER TENANT: the same name and address, in that tenant from now on.
into_tenant() {
	local address
	address=$("$LAB" ip "$1")
	"$LAB" stop "$1" && router_ctl container rm "$1" && router_ctl container add "$1" --ip "$address" --tenant "$2" &&
		"$LAB" start "$1"
}

attack peer h0c1
attack peer h1c0

step "the victim's place is another tenant's"
victim_begin
inside h0c1 "$numbers" stays <"$OUT/to_attacker" >"$OUT/to_victim" 2>"$OUT/attack" &
attacker=$!
connected() {
	grep -qs connected "$OUT/attack" || ended "$attacker"
}
wait_for 60 connected || fail "the attacker does not connect"
running "$attacker" || fail "$(cat "$OUT/attack" "$OUT/victim")"
into_tenant h0c0 red >"$OUT/log" 2>&1 || fail "h0c0 is not of tenant red: $(cat "$OUT/log")"
wait "$victim"
victim_begin
wait "$attacker" || fail "$(cat "$OUT/attack" "$OUT/victim")"
cat "$OUT/attack"
victim_end

attack other h0c1
attack other h1c0

step "with a policy"
router_ctl policy allow default red >/dev/null || fail "policy"
attack peer h0c1
attack peer h1c0
exit 0
