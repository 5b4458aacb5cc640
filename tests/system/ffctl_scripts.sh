#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ffctl_scripts.sh - what scripts need of ffctl: exit statuses, errors as JSON, changes that may be made twice, lists.
# test: netns
# all: system-san
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/own_router.sh"

# ends STATUS CODE WORDS ARG...: ffctl ARG... ends with that status, with and without --json. WORDS are in the one line of
# its error, and in the message of the object.
ends() {
	local status=$1 code=$2 words=$3
	shift 3
	ctl "$@" >"$OUT/out" 2>"$OUT/err"
	(($? == status)) || fail "ffctl $*: not status $status: $(cat "$OUT/err")"
	[[ $(wc -l <"$OUT/err") == 1 ]] || fail "ffctl $*: not one line: $(cat "$OUT/err")"
	grep -qF -e "$words" "$OUT/err" || fail "ffctl $*: no '$words': $(cat "$OUT/err")"
	ctl "$@" --json >"$OUT/out" 2>"$OUT/err"
	(($? == status)) || fail "ffctl $* --json: not status $status: $(cat "$OUT/err")"
	[[ ! -s $OUT/out ]] || fail "ffctl $* --json: it wrote to stdout: $(cat "$OUT/out")"
	python3 -c 'import json, sys
error = json.load(sys.stdin)["error"]
sys.exit(error["status"] != int(sys.argv[1]) or error["code"] != sys.argv[2] or sys.argv[3] not in error["message"])' \
		"$status" "$code" "$words" <"$OUT/err" 2>&1 || fail "ffctl $* --json: $(cat "$OUT/err")"
}

# prints TEXT ARG...: ffctl ARG... ends with 0, prints these words and no error.
prints() {
	local text=$1 out
	shift
	out=$(ctl "$@" 2>"$OUT/err") || fail "ffctl $*: status $?: $(cat "$OUT/err")"
	[[ ! -s $OUT/err ]] || fail "ffctl $*: $(cat "$OUT/err")"
	[[ $(tr -s ' \n' ' ' <<<"$out") == "$(tr -s ' \n' ' ' <<<"$text")" ]] || fail "ffctl $* prints: $out"
}

step "errors without a router"
ends 1 failed 'is ffr running?' ping
ends 2 usage 'unknown command "frobnicate"' frobnicate
ends 2 usage 'unknown option --frobnicate' --frobnicate
ends 2 usage 'is none of adaptive' container add web --mode fast

start "store = \"$D/r.db\""

step "what is not there"
ends 4 not-found 'no container "web"' container show web
ends 4 not-found 'no container "web"' container rm web
ends 4 not-found 'no host "hy"' container migrate web --to hy
ends 4 not-found 'no such rule' policy rm red blue
prints '' container rm web --ignore
ends 2 usage 'unknown option --ignore' container show web --ignore

step "what is there"
web="web 10.77.7.7 $D/run/containers/web"
prints "$web" container add web --ip 10.77.7.7 --tenant red
ends 5 exists 'already, on host hx' container add web
prints "$web" container add web --exist-ok --tenant red
prints "$web" container add web --exist-ok --tenant red --ip 10.77.7.7
ends 5 exists 'exists with tenant red' container add web --exist-ok
ends 5 exists 'exists with other addresses: 10.77.7.7' container add web --exist-ok --tenant red --ip 10.77.7.8
ends 5 exists 'exists with other addresses: 10.77.7.7' container add web --exist-ok --tenant red --ip 10.77.7.7 --ip fd77::7
prints "db 10.77.7.8 $D/run/containers/db" container add db --exist-ok --ip 10.77.7.8
ends 1 failed '10.77.7.8' container add third --exist-ok --ip 10.77.7.8
prints '' container rm web --ignore
ends 4 not-found 'no container "web"' container show web

step "lists"
ctl container add web --ip 10.77.7.9 --tenant red >/dev/null || fail "add web"
ctl container add app --ip 10.77.7.10 --tenant red --mode spin >/dev/null || fail "add app"
for list in "container list" ls; do
	read -r -a words <<<"$list"
	prints "$(printf '%s\n' app db web)" "${words[@]}" -q
	prints "$(printf '%s\n' db web app)" "${words[@]}" -q --sort addresses
	prints "$(printf '%s\n' db app web)" "${words[@]}" -q --all --sort tenant
	prints "$(printf '%s\n' app web)" "${words[@]}" -q --tenant red
	prints '' "${words[@]}" -q --tenant blue
	prints '[ "app", "web" ]' "${words[@]}" -q --tenant red --json
	ends 2 usage '"size" is no column of the list' "${words[@]}" --sort size
	ends 2 usage '"sessions" is no column of the list' "${words[@]}" --sort sessions --all
	ends 2 usage 'unexpected argument "web"' "${words[@]}" web
done
ctl ls >"$OUT/ls" || fail "ls"
ctl container list >"$OUT/list" || fail "container list"
cmp "$OUT/ls" "$OUT/list" || fail "$(cat "$OUT/ls" "$OUT/list")"
grep -q '^NAME  *TENANT  *ADDRESSES  *MODE  *LID  *SESSIONS$' "$OUT/list" || fail "$(cat "$OUT/list")"
grep -q '^app  *red  *10.77.7.10  *spin  *[1-9][0-9]*  *0$' "$OUT/list" || fail "$(cat "$OUT/list")"
ctl ls --all --sort mode >"$OUT/list" || fail "ls --all"
grep -q '^NAME  *TENANT  *ADDRESSES  *MODE  *LID  *HOST  *EPOCH  *ACTIVE$' "$OUT/list" || fail "$(cat "$OUT/list")"
tail -n 1 "$OUT/list" | grep >/dev/null '^app  *red  *10.77.7.10  *spin  *[0-9]*  *hx  *1  *no$' || fail "$(cat "$OUT/list")"

# warns TEXT ARG...: ffctl ARG... ends with 0 and that one line on stderr, or with --json that member.
warns() {
	local text=$1 out
	shift
	out=$(ctl "$@" 2>"$OUT/err") || fail "ffctl $*: status $?: $(cat "$OUT/err")"
	[[ -z $out && $(cat "$OUT/err") == "${text:+ffctl: warning: $text}" ]] || fail "ffctl $*: $out, $(cat "$OUT/err")"
	out=$(ctl "$@" --json 2>"$OUT/err") || fail "ffctl $* --json: status $?: $(cat "$OUT/err")"
	[[ ! -s $OUT/err ]] || fail "ffctl $* --json: $(cat "$OUT/err")"
	[[ $(python3 -c 'import json, sys; print(json.load(sys.stdin).get("warning", ""))' <<<"$out") == "$text" ]] ||
		fail "ffctl $* --json: $out"
}

step "parties that the store does not know"
warns '' policy allow red red/web
warns 'no container is of tenant rde' policy allow rde red
warns 'no container is of tenant rde' policy deny rde rde
warns 'there is no container wbe; no container is of tenant rde' policy deny red/wbe rde
warns 'container web is of tenant red, not of blue' policy allow blue/web red
warns 'no container is of tenant rde' tenant set rde --max-qp 10
warns '' policy allow rde red
warns '' tenant set red --max-qp 10
prints '' policy rm rde rde
for party in rde red/wbe blue/web; do
	ctl policy rm "$party" red || ctl policy rm "$party" rde || fail "policy rm $party"
done
prints '' policy rm red red/web
prints '' tenant rm rde
prints '[]' policy list --json
ctl tenant set red --max-qp none || fail "tenant set"

step "a tenant"
ends 4 not-found 'tenant red has no limits' tenant rm red
ctl tenant set red --max-qp 10 --rate 1Gbit || fail "tenant set"
ctl tenant set blue --max-qp 10 || fail "tenant set"
ends 1 failed 'tenant red has containers, web among them' tenant rm red
prints '' container rm app
prints '' container rm web
prints '' tenant rm red
ends 4 not-found 'tenant red has no limits' tenant rm red
ctl tenant list >"$OUT/list" || fail "tenant list"
! grep '^red ' "$OUT/list" || fail "tenant red is there"
grep -q '^blue  *max-qp  *10 ' "$OUT/list" || fail "$(cat "$OUT/list")"
ends 2 usage "a tenant's name is missing" tenant rm

kill $PARENT
wait $PARENT || fail "the router ended with $?: $(cat "$D/log")"
exit 0
