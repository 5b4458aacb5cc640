#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# promise.sh [--write] - what docs/release.md promises for all of 1.x. promise.txt has a line for each fact that library, other
# routers, orchestrator, scripts, dashboards and configuration files of 1.0 rely on, and this tree still has each of them.
# promise-store-N.sql is a store of schema version N. A router of this tree opens it, reads all of it and changes it.
# --write makes promise.txt anew, and a store where there is none of this tree's schema version. Once there is a release, a tag
# v1.*, --write only adds.
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

# What the helps tell of: "ffctl container add --ip".
options_told() {
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

# Prints what options_told prints, and tells of each option that its program does not take. Every program ends, at the latest
# because it does not know --no-such-option.
options() {
	local line words
	options_told | sort -u | tee "$TMP/options"
	while read -r line; do
		read -ra words <<<"$line"
		[[ ${words[-1]} != -* ]] || ! "$BUILD/bin/${words[0]}" "${words[@]:1}" x --no-such-option 2>&1 </dev/null |
			grep -E "(unknown|wrong) option ${words[-1]}[;:]" >&2
	done < <(sed 's/\( -[^ ]*\).*/\1/' "$TMP/options")
}

# The options of ffr.conf; ffr says that it knows no such option where one is gone.
configuration() {
	awk '/^[a-z_]+ \{/ { section = $1 " "; next } /^\}/ { section = ""; next }
		match($0, /^#?\t?[a-z_]+ = /) { sub(/^#?\t?/, ""); sub(/[ \t]*#.*/, ""); print section $0 }' deploy/ffr.conf >"$TMP/conf"
	awk '{ if ($2 == "=") print; else { section = $1; $1 = ""; print section " {\n" $0 "\n}" } }' "$TMP/conf" >"$TMP/all.conf"
	"$BUILD/bin/ffr" --check "$TMP/all.conf" 2>&1 | grep 'no such option' >&2
	sed 's/ = .*//; s/^/ffr.conf /' "$TMP/conf"
}

# A store with something in each table, in FOLDER/store.db.
store_make() { # FOLDER
	local status
	router_start "$1" "$1/store.db" &&
		ctl container add web --tenant red --ip 10.77.0.9 --ip fd77::9 --rate 1Gbit --max-qp 64 --device-name mlx5_0 --devices 2 >/dev/null &&
		ctl container add db --ip 10.77.0.2 >/dev/null && ctl tenant set red --rate 2Gbit >/dev/null &&
		ctl policy allow blue red/web >/dev/null 2>&1 && ctl policy deny green red >/dev/null 2>&1
	status=$?
	router_stop
	ROUTER=
	return $status
}

# A store as SQL, with what .dump of sqlite3 leaves out.
store_dump() { # FILE
	python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print("-- A store that a router made. promise.sh --write wrote it.")
for name in ("application_id", "user_version"):
    (value,) = db.execute("PRAGMA " + name).fetchone()
    print(f"PRAGMA {name} = {value};")
print(*db.iterdump(), sep="\n")' "$1"
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
missing=$(broken "$TMP/facts")
if [[ ${1-} == --write ]]; then
	((failures == 0)) || finish
	if [[ -n $(git tag --list 'v1.*' 2>/dev/null) && -n $missing ]]; then
		not_ok "what a release has promised is still there" "$missing"
		finish
	fi
	cp "$TMP/facts" "$HERE/promise.txt"
	mkdir "$TMP/made"
	store_make "$TMP/made" || not_ok "a router makes a store" "$(<"$TMP/made/log")"
	store_dump "$TMP/made/store.db" >"$TMP/store.sql"
	store=$HERE/promise-store-$(sed -n 's/^PRAGMA user_version = \(.*\);/\1/p' "$TMP/store.sql").sql
	((failures)) || [[ -e $store ]] || cp "$TMP/store.sql" "$store"
	finish
fi

same "$(wc -l <"$HERE/promise.txt") facts of 1.0" "$missing" ""

# The check must be able to fail: with each kind of fact in turn, one of them goes.
for kind in library wire orchestrator counter event limit ffctl ffr ffo ffr.conf environment metric json; do
	gone=$(grep -m 1 "^$kind " "$HERE/promise.txt")
	grep -vxF -- "$gone" "$HERE/promise.txt" >"$TMP/changed"
	same "a fact of $kind that is gone is noticed" "$(broken "$TMP/changed")" "gone: $gone"
done
sort "$HERE/promise.txt" - <<<"orchestrator request resolve.new UINT REQ" >"$TMP/changed"
same "a new required field is noticed" "$(broken "$TMP/changed")" "new and required: resolve.new UINT REQ"

# A container as the store has it, and neither what the host knows of it nor where.
container_of_store() { # NAME
	ctl --json container show "$1" | python3 -c 'import json, sys
have = json.load(sys.stdin)
print(*(have.get(k) for k in ("name", "tenant", "ips", "mode", "lid", "id", "epoch", "host", "device_name", "devices")),
      *sorted(have.get("limits", {}).items()))'
}

# The stores of releases: read, and changed.
same "there are stores" "$([[ -e $(compgen -G "$HERE/promise-store-*.sql" | head -n 1) ]] && echo yes)" yes
for sql in "$HERE"/promise-store-*.sql; do
	version=${sql##*-} version=${version%.sql}
	mkdir "$TMP/store-$version"
	python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.executescript(sys.stdin.read())' "$TMP/store-$version/store.db" <"$sql"
	if ! router_start "$TMP/store-$version" "$TMP/store-$version/store.db"; then
		ROUTER=
		not_ok "store $version is opened" "$(<"$TMP/store-$version/log")"
		continue
	fi
	same "store $version: a container" "$(container_of_store web)" \
		"web red ['10.77.0.9', 'fd77::9'] adaptive 1 1 1 h0 mlx5_0 2 ('max_qp', 64) ('rx_rate', 125000000) ('tx_rate', 125000000)"
	same "store $version: rules" "$(ctl --json policy list | tr -d ' \n')" \
		'[{"a":"blue","b":"red/web","action":"allow"},{"a":"green","b":"red","action":"deny"}]'
	same "store $version: a tenant" "$(ctl --json tenant list | tr -d ' \n')" \
		'[{"tenant":"red","limits":{"tx_rate":250000000,"rx_rate":250000000}}]'
	ctl container add new --tenant red --device-name mlx5_9 --devices 3 --ip 10.77.0.77 >/dev/null &&
		ctl container set web --max-qp 65 >/dev/null && ctl container rm db >/dev/null && ctl policy rm green red >/dev/null 2>&1
	same "store $version: it is changed" "$? $(container_of_store new); $(container_of_store web); $(ctl container list -q | xargs)" \
		"0 new red ['10.77.0.77'] adaptive 3 3 1 h0 mlx5_9 3; web red ['10.77.0.9', 'fd77::9'] adaptive 1 1 1 h0 mlx5_0 2 \
('max_qp', 65) ('rx_rate', 125000000) ('tx_rate', 125000000); new web"
	router_stop
	ROUTER=
done
finish
