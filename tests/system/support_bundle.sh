#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# support_bundle.sh - ffctl support-bundle: what is in the archive, that no credentials are, and that it is made without a
# router, too.
# test: netns
# all: system-san
. "$(dirname "$0")/../rig/shell/lab.sh"

ADMIN=$FF_LAB/$(<"$FF_LAB/$A/host")/admin.sock

# bundle FILE ARGS...: makes it, and unpacks it to $OUT/freeflow-support.
bundle() {
	local file=$1
	shift
	rm -rf "$OUT/freeflow-support"
	TMPDIR=$OUT/tmp "$BUILD/bin/ffctl" "$@" support-bundle "$file" --config "$OUT/ffr.conf" >"$OUT/out" 2>"$OUT/error" ||
		fail "status $?: $(<"$OUT/error")"
	[[ $(stat -c %a "$file") == 600 ]] || fail "mode $(stat -c %a "$file")"
	tar -C "$OUT" -xzf "$file" || fail "tar"
	[[ -z $(ls "$OUT/tmp") ]] || fail "it left $(ls "$OUT/tmp")"
}

mkdir "$OUT/tmp"
cat >"$OUT/ffr.conf" <<-'CONF'
	# the password is sesame
	hostname = "hx" 
	/* or
	password = open
	*/
	orchestrator = "zookeeper:10.0.0.1:2181/ff?auth=digest:me:sesame&timeout=3000"
CONF

step "of a router that runs"
# an event that is not a client's: those are limited, and the lab's last test may have used them up
"$BUILD/bin/ffctl" --admin "$ADMIN" container add bundled >/dev/null || fail "container add"
bundle "$OUT/one.tar.gz" --admin "$ADMIN"
cd "$OUT/freeflow-support" || fail "no folder"
diff <(ls) <(awk '$1 ~ /\./ { print $1 } END { print "README" }' README | sort) || fail "README does not tell all of it"
while read -r file _; do
	if [[ $file == *.* ]] && ! grep -qF "  $file " "$OUT/out"; then
		fail "$file is not told: $(<"$OUT/out")"
	fi
done < <(ls)
grep -q '^ok  *router: ' doctor.txt || fail "$(<doctor.txt)"
for file in *.json; do
	python3 -m json.tool "$file" >/dev/null || fail "$file: $(<"$file")"
done
grep -q "\"name\": \"$A\"" containers.json || fail "$(<containers.json)"
grep -q '"container": "bundled"' events.json || fail "$(tail -n 40 events.json)"
"$BUILD/bin/ffctl" --admin "$ADMIN" container rm bundled || fail "container rm"
grep -q "$(uname -r)" kernel.txt || fail "$(<kernel.txt)"
diff ffr.conf - <<-'CONF' || fail "the configuration"
	hostname = "hx" 
	orchestrator = "zookeeper:10.0.0.1:2181/ff?auth=(removed)&timeout=3000"
CONF
cd "$OUT" || fail "cd"
"$BUILD/bin/ffctl" support-bundle "$OUT/one.tar.gz" 2>"$OUT/error" && fail "it overwrites"
grep -q 'File exists' "$OUT/error" || fail "$(<"$OUT/error")"

step "without a router"
bundle "$OUT/two.tar.gz" --admin "$OUT/none" --json
python3 -c 'import json, sys
a = json.load(sys.stdin)
assert a["file"] == sys.argv[1] and "doctor.txt" in a["parts"]' "$OUT/two.tar.gz" <"$OUT/out" || fail "$(<"$OUT/out")"
grep -q '^PROBLEM  *router: ' freeflow-support/doctor.txt || fail "$(<freeflow-support/doctor.txt)"
grep -q 'is ffr running?' freeflow-support/stats.json || fail "$(<freeflow-support/stats.json)"
grep -qx '(ffctl: it ended with status 1)' freeflow-support/stats.json || fail "$(<freeflow-support/stats.json)"
exit 0
