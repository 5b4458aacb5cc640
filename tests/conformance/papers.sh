#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# papers.sh - the documents: what papers.py looks for (links, headings, sources, code blocks, dates), and that make bench and make
# matrix find their tables. The pages of docs/reference have each JSON field, metric and environment variable that there is.
# tests/packages/papers.sh runs the commands.
set -eu -o pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
BUILD=${BUILD:-build}
bad=0

say() {
	echo "$*"
	bad=1
}

python3 -B tests/conformance/papers.py || bad=1

# A router of its own says which fields and metrics there are: reference/ has each by its name.
. tests/conformance/router.sh
dir=$(mktemp -d /tmp/freeflow-papers.XXXXXX)
trap 'router_stop || true; rm -rf "$dir"' EXIT
router_start "$dir" || say "no router to ask: $(<"$dir/log")"
ctl container add a --rate 1Gbit --max-cpu 0.5 >/dev/null || say "no router to ask: $(<"$dir/log")"
ctl policy allow red default/a >/dev/null 2>&1
ctl tenant set red --rate 2Gbit >/dev/null 2>&1
router_metrics >"$dir/metrics"
sed -n 's/^# HELP \([a-z_]*\) .*/\1/p' "$dir/metrics" >"$dir/names"
[[ $(wc -l <"$dir/names") -gt 40 ]] || say "few metrics: $(<"$dir/metrics")"
while read -r name; do
	grep -qF "\`$name\`" docs/reference/metrics.md || say "docs/reference/metrics.md does not have $name"
done <"$dir/names"
for command in "${ROUTER_ASKS[@]}"; do
	# shellcheck disable=SC2086
	ctl --json $command >"$dir/json" 2>/dev/null || [[ $command == doctor ]] || say "ffctl --json $command fails"
	python3 - "$command" "$dir/json" <<'PYTHON' || bad=1
import json, re, sys

told = set(re.findall(r"`([a-z0-9_]+)`", open("docs/reference/json.md", encoding="utf-8").read()))
# Their members are those of ffctl(8) and verbs: counters, statuses, limits, reasons.
WHOLE = {"counters", "completions", "copied_bytes", "limits", "usage"}
bad = False


def look(value, seen):
    global bad
    for v in value if isinstance(value, list) else [value]:
        if isinstance(v, dict):
            for key, member in v.items():
                if key not in told:
                    print(f"docs/reference/json.md does not have '{key}' of ffctl --json {sys.argv[1]}")
                    bad = True
                if key not in WHOLE:
                    look(member, seen)


look(json.load(open(sys.argv[2], encoding="utf-8")), set())
sys.exit(bad)
PYTHON
done

# The environment: each variable that the sources read.
while read -r name; do
	grep -qF "\`$name\`" docs/reference/environment.md || say "docs/reference/environment.md does not have $name"
done < <(grep -rhoE 'getenv\("[A-Z_]+"\)' ffl ffr ffo --include='*.c' | sed 's/.*("//; s/").*//' | sort -u)

grep -q '<!-- matrix: begin -->' docs/programs.md || say "docs/programs.md has no place for the matrix"

python3 - <<'PYTHON' || say "the tables of figures are not written as they should be"
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/bench")
from ffbench import figures
from ffbench.row import Row

RUN = {"date": "2000-01-01 00:00 UTC", "cpu": "a CPU", "cores": 2, "virtual": "", "kernel": "6.1",
       "commit": "abc", "options": "7 repetitions"}
ROWS = [
    Row("write-latency", "one that is there", "ns", [1, 2, 3], "peer", [1, 1, 1], must=4, aim=3),
    Row("a-new-one", "one that is not", "us", [5], on="value"),
    Row("zk-publish", "of a narrow table", "1/s", [7], on="value"),
    Row("hostile-calls-p99", "8-byte round trips, p99, while another calls", "us", [1], "burns", [2], must=2),
    Row("hostile-calls-p99-alone", "8-byte round trips, p99, while another calls", "us", [1], "alone", [3]),
    Row.failed("idle-cpu", "one that failed", "why"),
]
WANT = {
    "docs/figures.md": {
        "| one that is there | 2.00 ns | peer: 1.00 ns | 2.00 x | <= 4 x | <= 3 x | aim | "
        "2000-01-01 00:00 UTC | `write-latency` |",
        "| one that is not | 5.00 us |  |  |  |  |  | 2000-01-01 00:00 UTC | `a-new-one` |",
        "| of a narrow table | 7.00 1/s |  |  |  |  |  | 2000-01-01 00:00 UTC | `zk-publish` |",
        "| another calls | 1.00 | 2.00 | 0.50 x | must | 3.00 |  |  |  |  |  | 2000-01-01 00:00 UTC | `hostile-calls` |",
    },
}
LINE = "- 2000-01-01 00:00 UTC; 2 cores of a CPU; Linux 6.1; commit abc; 7 repetitions"
for path, want in WANT.items():
    text = open(path, encoding="utf-8").read()
    assert figures.put(text, [], RUN) == text, f"{path}: nothing was measured, and it changes"
    new = figures.put(text, ROWS, RUN)
    came = set(new.splitlines()) - set(text.splitlines())
    assert came == want | {LINE}, f"{path}: {came ^ (want | {LINE})}"
    gone = {key for key in ("write-latency", "zk-publish", "idle-cpu", "hostile-bells")
            if text.count(f"| `{key}` |") != new.count(f"| `{key}` |")}
    assert not gone, f"{path}: {gone}"
PYTHON
exit $bad
