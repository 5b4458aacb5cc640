#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# night: hosts
# timeout: 1800
# fabtests.sh [SETS [PROVIDER...]] - libfabric's own tests, by their own script and with its own exclude lists
# and no other, between two containers: over connections, and reliable datagrams on connections and on
# datagrams. No package has them: FABTESTS is the folder where they are installed, as docs/programs.md
# tells. `make matrix` runs all sets.
. "$(dirname "$0")/../rig/shell/lab.sh"

fabtests=${FABTESTS-}
[[ -n $fabtests && -e $fabtests/bin/runfabtests.sh ]] ||
	skip "FABTESTS names no folder with bin/runfabtests.sh"
fabtests=$(readlink -f "$fabtests")
SETS=${1:-unit,functional}
LIMIT=300 # seconds for a test
[[ $SETS != all ]] || LIMIT=1800 # fi_ubertest has many configurations
shift
(($#)) || set -- verbs "verbs;ofi_rxm" "verbs;ofi_rxd"

remote_shell ssh
ln -s "$fabtests/share/fabtests/test_configs" "$OUT/test_configs" # it looks for its lists where it runs

# Does a test of one side fail without any RDMA device as well, on the host and over TCP?
fails_elsewhere() { # "PROGRAM ARGS..."
	local test
	read -r test _ <<<"$1"
	case $test in
	sighandler_test | check_hmem | sock_test) ! timeout 120 "$fabtests/bin/$test" -p tcp >"$OUT/elsewhere" 2>&1 ;;
	*) false ;;
	esac
}

count() { # WORDS
	sed -n "s/^# $1 *\([0-9]*\)\$/\1/p" "$OUT/report"
}

failed=()
for provider; do
	(cd "$OUT" && PATH=$OUT:$PATH exec "$fabtests/bin/runfabtests.sh" -v -t "$SETS" -T "$LIMIT" \
		-p "$fabtests/bin" -s "$("$LAB" ip "$B")" -c "$("$LAB" ip "$A")" "$provider" "$B" "$A") \
		>"$OUT/report" 2>&1
	[[ -n $(count "Total Pass") ]] || {
		cat "$OUT/report"
		fail "runfabtests.sh for $provider came to no end"
	}
	known=
	while IFS= read -r name; do
		if fails_elsewhere "$name"; then
			known+=", ${name%% *} fails without a device too"
			continue
		fi
		echo "FAIL: $name"
		sed -n "/^- name: *$(sed 's/[][\.*^$/]/\\&/g' <<<"$name")\$/,/^[-#] /p" "$OUT/report"
		failed+=("$name")
	done < <(awk -F ':   ' '/^- name:/ { name = $2 } / result: Fail/ { print name }' "$OUT/report")
	step "-t $SETS $provider: $(count "Total Pass") passed, $(count "Total Fail") failed," \
		"$(count "Total Notrun\/Excluded") not run or excluded$known"
done
((!${#failed[@]})) || fail "$(IFS=';' && echo "${failed[*]}")"
