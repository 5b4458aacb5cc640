#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 600
# runner.sh - tests/run itself: everything that must fail a test does, and each test runs once.
. "$(dirname "$0")/../rig/shell/lab.sh"

tests=$OUT/tests
mkdir -p "$tests/system"

# make_test NAME [TIMEOUT]: a test of that name, with the rest of its text from standard input.
make_test() {
	{
		printf '#!/bin/bash\n# test: netns\n# timeout: %d\n. %q\necho run >>%q\n' "${2:-30}" \
			"$TREE/tests/rig/shell/lab.sh" "$OUT/$1.runs"
		cat
	} >"$tests/system/$1.sh"
	chmod +x "$tests/system/$1.sh"
}

# shellcheck disable=SC2016 # these are texts of tests
make_tests() {
	make_test passes <<<'"$LAB" exec h0c0 -- true'
	make_test skips <<<'skip "for a reason"'
	make_test fails <<<'exit 3'
	make_test complains <<<'fail "something is wrong"'
	make_test hangs 3 <<<'sleep 1000'
	make_test kills_router <<<'kill -KILL "$(cat "$FF_LAB/h0/ffr.pid")"; wait_for 60 ended "$(cat "$FF_LAB/h0/ffr.pid")"; exit 0'
	make_test stops_container <<<'kill -KILL "$(cat "$FF_LAB/h0c1/pid")"; exit 0'
	make_test refused <<<'echo "ffr: error: sandbox: the router may not call foo" >>"$FF_LAB/h0/ffr.log"'
	make_test reported <<<'echo "ERROR: LeakSanitizer" >"$FF_LAB/h0/san.1"'
	make_test own_refused <<<'own_lab --containers 1
echo "ffr: error: sandbox: the keeper may not call foo" >>"$OWN_LAB/h0/ffr.log"'
	make_test own_reported <<<'own_lab --containers 1
echo "ERROR: AddressSanitizer" >"$OWN_LAB/h0/san.1"'
	make_test last <<<'"$LAB" exec h0c1 -- true'
}
make_tests

step "twelve tests, of which nine fail"
env -u FF_LAB -u WORK "$TREE/tests/run" --build "$BUILD" --tests "$tests" -j 2 netns >"$OUT/run" 2>&1
status=$?
((status == 1)) || { cat "$OUT/run" && fail "the runner ended with $status"; }

said() { # WORD NAME
	grep "^$1 *netns/$2 " "$OUT/run" >/dev/null || { cat "$OUT/run" && fail "no '$1' for $2"; }
	[[ $(wc -l <"$OUT/$2.runs") == 1 ]] || fail "$2 ran more than once"
}

said ok passes
said skip skips
said ok last
for t in fails complains hangs kills_router stops_container refused reported own_refused own_reported; do
	said FAIL "$t"
done
# With the labs that were taken down.
last=$(tail -n 1 "$OUT/run")
[[ $last =~ ^[0-9]+\ passed,\ 9\ failed,\ 1\ skipped$ ]] || { cat "$OUT/run" && fail "the last line is '$last'"; }

step "a test whose programs do not build is not passed"
mkdir -p "$OUT/bin"
printf '#!/bin/sh\nexit 2\n' >"$OUT/bin/make"
chmod +x "$OUT/bin/make"
env -u FF_LAB -u WORK PATH="$OUT/bin:$PATH" "$TREE/tests/run" --tests "$tests" -f passes netns >"$OUT/run" 2>&1
(($? == 1)) || { cat "$OUT/run" && fail "the runner passed without a build"; }
grep 'FAIL netns/passes ' "$OUT/run" >/dev/null || fail "the test is not called failed"

hangs_again() {
	[[ $(wc -l <"$OUT/hangs.runs") == 2 ]]
}

step "an interrupted run leaves nothing"
env -u FF_LAB -u WORK setsid "$TREE/tests/run" --build "$BUILD" --tests "$tests" -f hangs netns >"$OUT/run" 2>&1 &
runner=$!
wait_for 100 hangs_again || fail "the test did not start"
work=$(tr '\0' '\n' <"/proc/$(pgrep -f "$tests/system/hangs.sh" | head -n 1)/environ" | sed -n 's/^WORK=//p')
kill -TERM "$runner"
wait "$runner"
[[ -n $work && ! -e ${work%/*} ]] || fail "'${work%/*}' is left"
[[ -z $(pgrep -f "$tests/system/") ]] || fail "left: $(pgrep -af "$tests/system/")"
exit 0
