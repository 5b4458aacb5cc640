#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# runtime_options.sh - freeflow-runc's own options, as daemon.json has them in runtimeArgs: those of the hook come into the
# container's configuration, and a wrong one ends the start with a reason, also in the log that engines show.
# test: netns
. "$(dirname "$0")/../rig/shell/lab.sh"
trap end_test EXIT

# run OPTION...: freeflow-runc with these creates a container. Its words in $said, its status in $status.
run() {
	mkdir -p "$OUT/bundle" && echo '{}' >"$OUT/bundle/config.json" && rm -f "$OUT/log"
	said=$("$BUILD/bin/freeflow-runc" --freeflow-runtime=echo "$@" --log "$OUT/log" create --bundle "$OUT/bundle" web 2>&1)
	status=$?
}

refused() { # REGEX OPTION...
	run "${@:2}"
	((status == 1)) || fail "${*:2}: status $status: $said"
	grep -Eq -- "^freeflow-runc: $1" <<<"$said" || fail "${*:2}: $said"
	python3 -c '
import json, re, sys
line = json.load(open(sys.argv[1]))
assert line["level"] == "error" and re.search("^freeflow-runc: " + sys.argv[2], line["msg"]), line' "$OUT/log" "$1" || fail "the log"
	[[ $(<"$OUT/bundle/config.json") == '{}' ]] || fail "the configuration was changed"
}

step "all of them"
options=(--name=web --tenant=red --annotations --kubernetes --pool --admin=/a.sock --lib=/l --socket-dir=/r)
run "${options[@]/#--/--freeflow-}"
((!status)) || fail "status $status: $said"
[[ $said == "--log $OUT/log create --bundle $OUT/bundle web" ]] || fail "runc has other arguments: $said"
python3 -c '
import json, sys
for kind, hooks in json.load(open(sys.argv[1]))["hooks"].items():
    assert hooks[0]["args"] == ["ff-hook", kind] + sys.argv[2:], hooks' "$OUT/bundle/config.json" "${options[@]}" || fail "the hooks"

step "wrong ones"
refused '--freeflow-admin: its value is missing: write it as --freeflow-OPTION=VALUE' --freeflow-admin /a.sock
refused '--freeflow-runtime: there is no such option' --freeflow-runtime
refused '--freeflow-bogus: there is no such option' --freeflow-bogus
refused '--freeflow-adm=/a: there is no such option' --freeflow-adm=/a
refused '--freeflow-: there is no such option' --freeflow-
refused '--freeflow-pool=1: it takes no value' --freeflow-pool=1
refused '--freeflow-lib=/x+: it is too long' "--freeflow-lib=/$(printf 'x%.0s' {1..300})"
exit 0
