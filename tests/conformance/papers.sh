#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# papers.sh - the documents: links lead to files, sources that architecture.md names are there, and
# make bench and make matrix find their tables.
set -eu -o pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
bad=0

say() {
	echo "$*"
	bad=1
}

papers=(*.md docs/*.md deploy/*.md tests/fuzz/*.md)
for paper in "${papers[@]}"; do
	while read -r link; do
		[[ -z $link || -e $(dirname "$paper")/$link ]] || say "$paper: $link is not there"
	done < <(grep -oE '\]\([^)]*\)' "$paper" | sed 's/^](//; s/)$//; s/#.*//; /^https:/d')
done

while read -r source; do
	compgen -G "$source" >/dev/null || say "docs/architecture.md: $source is not there"
done < <(grep -oE "\`(ff[lro]|tests)/[^\` ]+\`" docs/architecture.md | tr -d "\`")

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
    "README.md": {
        "| one that is there | 2.00 ns | peer: 1.00 ns | 2.00 x | <= 4 x | <= 3 x | aim | "
        "2000-01-01 00:00 UTC | `write-latency` |",
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
