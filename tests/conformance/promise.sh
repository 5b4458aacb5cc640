#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# promise.sh [--write] - what docs/release.md promises for all of 1.x. promise.txt has a line for each fact that library, other
# routers, orchestrator, scripts, dashboards and configuration files of 1.0 rely on, and this tree still has each of them.
# promise-store.sql is a store that 1.0 made; a router of this tree opens it. --write makes promise.txt anew: at a release, to add
# what is new.
set -u -o pipefail
. "$(dirname "$0")/common.sh"
. "$HERE/router.sh"
cd "$TREE" || exit 1
export LC_ALL=C
trap '[[ -z ${ROUTER-} ]] || router_stop; rm -rf "$TMP"' EXIT

compile() {
	gcc -w -std=gnu11 -D_GNU_SOURCE -I. -xc "$@"
}

# The structs and enumerators of headers, by what gcc tells debuggers.
structs() { # NAME REGEX HEADER...
	printf '#include "%s"\n' "${@:3}" >"$TMP/headers.c"
	compile -g -fno-eliminate-unused-debug-types -c -o "$TMP/headers.o" "$TMP/headers.c" &&
		readelf --debug-dump=info "$TMP/headers.o" | python3 -B "$HERE/promise_structs.py" "$1" "$2"
}

# Flags and sizes of the protocol. Limits (MAX) and times may change.
constants() {
	printf '#include "%s"\n' ffr/abi/ff_proto.h ffr/abi/ff_ring.h >"$TMP/headers.c"
	compile -E -dM "$TMP/headers.c" | grep -E '^#define FF_[A-Z0-9_]+ ("|\(*[(0-9])' | grep -vE 'MAX|_US |LEAVING' |
		sed 's/#define/library constant/'
}

# The paths of all fields: sessions[].pid
json_fields() { # COMMAND
	python3 -c 'import json, sys
def look(value, path):
    if isinstance(value, list):
        for v in value:
            look(v, path + "[]")
    elif isinstance(value, dict):
        for key, member in value.items():
            print(f"{path}.{key}")
            look(member, f"{path}.{key}")
look(json.load(sys.stdin), "json " + sys.argv[1] + ": ")' "$1" | sort -u
}

options() {
	local command
	"$BUILD/bin/ffctl" help | awk '/^  [a-z-]/ { sub(/   .*/, ""); sub(/^ */, ""); print "ffctl " $0 }
		/^  --/ { print "ffctl " $1 }'
	"$BUILD/bin/ffctl" help | sed -n 's/^  \([a-z][a-z-]*\( [a-z]*\)\?\)   .*/\1/p' | while read -r command; do
		# shellcheck disable=SC2086
		"$BUILD/bin/ffctl" $command --help | sed -n "s/^  \(-[a-z-]*\).*/ffctl $command \1/p"
	done
	"$BUILD/bin/ffr" --help | grep -oE -- '--[a-z0-9-]+' | sed 's/^/ffr /'
	"$BUILD/bin/ffo" --help | grep -oE -- '--[a-z0-9-]+' | sed 's/^/ffo /'
}

# The options of ffr.conf; ffr says that it knows no such option where one is gone.
configuration() {
	awk '/^[a-z_]+ \{/ { section = $1 " "; next } /^\}/ { section = ""; next }
		match($0, /^#?\t?[a-z_]+ = /) { sub(/^#?\t?/, ""); sub(/[ \t]*#.*/, ""); print section $0 }' deploy/ffr.conf >"$TMP/conf"
	awk '{ if ($2 == "=") print; else { section = $1; $1 = ""; print section " {\n" $0 "\n}" } }' "$TMP/conf" >"$TMP/all.conf"
	"$BUILD/bin/ffr" --check "$TMP/all.conf" 2>&1 | grep 'no such option' >&2
	sed 's/ = .*//; s/^/ffr.conf /' "$TMP/conf"
}

facts() {
	local command
	compile -o "$TMP/promise" "$HERE/promise.c" && "$TMP/promise"
	structs library 'ff_\w+' ffr/abi/ff_proto.h ffr/abi/ff_ring.h
	constants
	structs wire 'wire_(hdr|hello|verdict)|nak_\w+' ffr/wire/wire.h ffr/peer/peer.h
	options
	configuration
	grep -rhoE 'getenv\("[A-Z_]+"\)' ffl ffr ffo --include='*.c' | sed 's/.*("/environment /; s/").*//'
	router_start "$TMP" >&2 && ctl container add a --ip 10.77.0.5 --rate 1Gbit --max-cpu 0.5 >/dev/null &&
		ctl policy allow red default/a >/dev/null 2>&1 && ctl tenant set red --rate 2Gbit >/dev/null 2>&1 ||
		echo "no router to ask: $(<"$TMP/log")" >&2
	router_metrics | sed -n 's/^# TYPE /metric /p'
	for command in "${ROUTER_ASKS[@]}"; do
		# shellcheck disable=SC2086 # words
		ctl --json $command 2>/dev/null | json_fields "$command"
	done
	router_stop
	ROUTER=
}

# Prints what is missing in HAVE, and what no older client knows to send.
broken() { # HAVE
	comm -23 <(sort -u "$HERE/promise.txt") "$1" | sed 's/^/gone: /'
	comm -13 <(sort -u "$HERE/promise.txt") "$1" | sed -n 's/^orchestrator request \([a-z_]*\)\.\(.* REQ\)$/\1 \2/p' |
		while read -r op field; do
			! grep -q "^orchestrator request $op by" "$HERE/promise.txt" || echo "new and required: $op.$field"
		done
}

facts 2>"$TMP/err" | sort -u >"$TMP/facts"
[[ ! -s $TMP/err ]] || not_ok "the facts can be found out" "$(<"$TMP/err")"
if [[ ${1-} == --write ]]; then
	cp "$TMP/facts" "$HERE/promise.txt"
	finish
fi

missing=$(broken "$TMP/facts")
same "$(wc -l <"$HERE/promise.txt") facts of 1.0" "$missing" ""

# The check must be able to fail: with each kind of fact in turn, one of them goes.
for kind in library wire orchestrator counter event limit ffctl ffr ffr.conf environment metric json; do
	gone=$(grep -m 1 "^$kind " "$HERE/promise.txt")
	grep -vxF -- "$gone" "$HERE/promise.txt" >"$TMP/changed"
	same "a fact of $kind that is gone is noticed" "$(broken "$TMP/changed")" "gone: $gone"
done
sort "$HERE/promise.txt" - <<<"orchestrator request resolve.new UINT REQ" >"$TMP/changed"
same "a new required field is noticed" "$(broken "$TMP/changed")" "new and required: resolve.new UINT REQ"

# A store of 1.0.
python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.executescript(sys.stdin.read())' "$TMP/store.db" <"$HERE/promise-store.sql"
if router_start "$TMP" "$TMP/store.db"; then
	same "a container of 1.0's store" "$(ctl container list | awk '$1 == "web" { print $1, $2 }')" "web red"
	same "a rule of 1.0's store" "$(ctl policy list | grep -c 'red/web')" 1
	same "a tenant of 1.0's store" "$(ctl tenant list | awk '$1 == "red" { print $1 }' | sort -u)" red
else
	not_ok "1.0's store is opened" "$(<"$TMP/log")"
fi
finish
