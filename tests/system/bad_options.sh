#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# bad_options.sh - ffr, ffo, ffctl and the lab refuse bad options and bad configuration with one
# clear line on stderr and a status that is not 0. ffctl's help needs no router, and a wrong word gets a suggestion.
# test: netns
# all: system-san
. "$(dirname "$0")/../rig/shell/lab.sh"

# refuses WORD CMD...: exactly one line on stderr, with WORD in it; nothing on stdout.
refuses() {
	local word=$1 status
	shift
	step "$*"
	timeout 30 "$@" >"$OUT/out" 2>"$OUT/err" </dev/null
	status=$?
	refused $status || fail "status $status: $(cat "$OUT/err")"
	[[ ! -s $OUT/out ]] || fail "it wrote to stdout: $(cat "$OUT/out")"
	[[ $(wc -l <"$OUT/err") == 1 ]] || fail "not one line: $(cat "$OUT/err")"
	grep -qi -- "$word" "$OUT/err" || fail "no word of '$word': $(cat "$OUT/err")"
}

conf() {
	printf '%s\n' "$@" >"$OUT/ffr.conf"
	echo "$OUT/ffr.conf"
}

ffr=$BUILD/bin/ffr ffo=$BUILD/bin/ffo ffctl=$BUILD/bin/ffctl
for program in "$ffr" "$ffo" "$ffctl"; do
	refuses 'no-such-option' "$program" --no-such-option
	"$program" --help >"$OUT/help" 2>&1 || fail "$program --help: status $?"
	grep -qs '^[Uu]sage' "$OUT/help" || fail "$program --help: $(cat "$OUT/help")"
done
refuses 'surplus' "$ffr" surplus
refuses 'surplus' "$ffo" surplus
refuses 'config' "$ffr" --config
refuses '/nonexistent' "$ffr" --config /nonexistent/ffr.conf
base="runtime_dir = \"$OUT/run\""
refuses 'nonsense' "$ffr" --config "$(conf "$base" 'nonsense = 1')"
refuses 'mode' "$ffr" --config "$(conf "$base" 'mode = "fast"')"
refuses 'neither always nor auto' "$ffr" --config "$(conf "$base" 'spin = never')"
refuses 'spin_us' "$ffr" --config "$(conf "$base" 'spin_us = -3')"
refuses 'spin_us' "$ffr" --config "$(conf "$base" 'spin_us = many')"
refuses 'runtime_dir' "$ffr" --config "$(conf 'runtime_dir = "relative"')"
refuses 'backend' "$ffr" --config "$(conf "$base" 'backend = "verbs"')"
refuses 'orchestrator' "$ffr" --config "$(conf "$base" 'orchestrator = "zookeeper"')"
refuses 'orchestrator' "$ffr" --config "$(conf "$base" 'orchestrator = "zookeeper:host"')"
refuses 'pools' "$ffr" --config "$(conf "$base" 'pools = { "10.0.0.0/40" }')"
refuses 'ffr.conf:[23]: ' "$ffr" --config "$(conf "$base" 'mode = "spin')"

refuses 'ffr.conf:4: ' "$ffr" --config "$(conf '# one' '// two' '/* three */' 'bad = 1')"
refuses 'seconds from 1' "$ffctl" --timeout 0 ping
refuses 'seconds from 1' "$ffctl" --timeout soon ping

step "help of each command"
none=(--admin "$OUT/no.sock")

# helps WORD CMD...: status 0, WORD on stdout, nothing on stderr.
helps() {
	"$ffctl" "${none[@]}" "${@:2}" >"$OUT/out" 2>"$OUT/err" || fail "ffctl ${*:2}: status $?: $(cat "$OUT/err")"
	[[ ! -s $OUT/err ]] || fail "ffctl ${*:2}: $(cat "$OUT/err")"
	grep -qF -e "$1" "$OUT/out" || fail "ffctl ${*:2}: no '$1': $(cat "$OUT/out")"
}

helps 'container add ' help
helps 'container add ' -h
cp "$OUT/out" "$OUT/commands"
mapfile -t commands < <(sed -n 's/^  \([a-z][a-z -]*[a-z]\)  .*/\1/p' "$OUT/commands")
((${#commands[@]} > 20)) || fail "${#commands[@]} commands: $(cat "$OUT/commands")"
for command in "${commands[@]}"; do
	read -r -a words <<<"$command"
	helps "usage: ffctl $command" help "${words[@]}"
	cp "$OUT/out" "$OUT/help"
	for option in --help -h; do
		helps "usage: ffctl $command" "${words[@]}" "$option"
		cmp "$OUT/help" "$OUT/out" || fail "ffctl $command $option: not what ffctl help $command says"
	done
	[[ $command != *' '* ]] || helps "  $command " help "${words[0]}"
done
helps '--max-qp NUMBER' container add web --help
helps 'tenant list ' tenant --help
refuses 'unknown command "frobnicate"' "$ffctl" help frobnicate

refuses "unknown command \"contaner\": did you mean 'container'?" "$ffctl" contaner list
refuses "unknown command \"container lis\": did you mean 'list'?" "$ffctl" container lis
refuses "unknown command \"frobnicate\"; see ffctl --help" "$ffctl" frobnicate
refuses "did you mean '--json'?" "$ffctl" --jsno ping
refuses "add: unknown option --tenat: did you mean '--tenant'?" "$ffctl" container add x --tenat y
refuses "unknown option --max-pq: did you mean '--max-qp'?" "$ffctl" tenant set x --max-pq 1
refuses "unknown option --tenant; see ffctl container rm --help" "$ffctl" container rm x --tenant y
refuses "policy allow: unknown option --hlep: did you mean '--help'?" "$ffctl" policy allow a --hlep
refuses 'trace: unknown option -q' "$ffctl" trace -q x
refuses 'option --docker=yes takes no value' "$ffctl" container show x --docker=yes

admin=(--admin "$FF_LAB/h0/admin.sock")
refuses 'frobnicate' "$ffctl" "${admin[@]}" frobnicate
refuses 'container' "$ffctl" "${admin[@]}" container
refuses 'frobnicate' "$ffctl" "${admin[@]}" container frobnicate
refuses 'name' "$ffctl" "${admin[@]}" container add
refuses 'name' "$ffctl" "${admin[@]}" container add bad/name
refuses '10.1.2.300' "$ffctl" "${admin[@]}" container add x --ip 10.1.2.300
refuses 'mode' "$ffctl" "${admin[@]}" container add x --ip 10.1.2.3 --mode fast
refuses 'h0c0' "$ffctl" "${admin[@]}" container add h0c0 --ip 10.1.2.3
refuses 'nobody' "$ffctl" "${admin[@]}" container show nobody
refuses 'nobody' "$ffctl" "${admin[@]}" container rm nobody
refuses 'surplus' "$ffctl" "${admin[@]}" container list surplus
refuses 'nothing to change' "$ffctl" "${admin[@]}" container set h0c0
refuses '10Gbit' "$ffctl" "${admin[@]}" container set h0c0 --rate 10GB
refuses 'at most 8Tbit' "$ffctl" "${admin[@]}" container set h0c0 --tx-rate 100Tbit
refuses 'max-qp.*more than 0' "$ffctl" "${admin[@]}" container add x --max-qp 0
refuses 'weight' "$ffctl" "${admin[@]}" container add x --weight 1001
refuses 'yes or no' "$ffctl" "${admin[@]}" container set h0c0 --latency low
refuses 'unknown option' "$ffctl" "${admin[@]}" container rm h0c0 --max-qp 1
refuses 'latency' "$ffctl" "${admin[@]}" tenant set blue --latency yes
refuses 'nothing to change' "$ffctl" "${admin[@]}" tenant set blue
refuses 'name' "$ffctl" "${admin[@]}" tenant set --rate 1Gbit
refuses 'surplus' "$ffctl" "${admin[@]}" tenant list surplus
refuses '--to' "$ffctl" "${admin[@]}" container migrate h0c0
refuses 'no host "h99"' "$ffctl" "${admin[@]}" container migrate h0c0 --to h99
refuses 'nobody' "$ffctl" "${admin[@]}" container claim nobody
refuses 'tenant' "$ffctl" "${admin[@]}" container claim h0c0 --tenant x
refuses 'rkey' "$ffctl" "${admin[@]}" map lookup h0c0
refuses 'no rkey' "$ffctl" "${admin[@]}" map lookup h0c0 0xabcdefg
refuses 'no rkey' "$ffctl" "${admin[@]}" map lookup h0c0 -- -5
refuses 'h0c0' "$ffctl" "${admin[@]}" map lookup h0c0 0x1
refuses '10.1.2.3' "$ffctl" "${admin[@]}" map lookup 10.1.2.3 1
refuses 'parties' "$ffctl" "${admin[@]}" policy allow red
refuses 'r/e/d' "$ffctl" "${admin[@]}" policy deny r/e/d blue
refuses 'rule' "$ffctl" "${admin[@]}" policy rm red blue
refuses "$("$LAB" ip h0c0)" "$ffctl" "${admin[@]}" container add x --ip "$("$LAB" ip h0c0)"
refuses 'no.sock' "$ffctl" --admin "$OUT/no.sock" stats

refuses 'no network' "$LAB" partition h0
refuses 'no network' "$LAB" heal h0
refuses "router's process" "$LAB" kill orchestrator
refuses 'router HOST' "$LAB" kill h0
refuses 'h0c0 runs' "$LAB" start h0c0
refuses 'no host' "$LAB" start h0c0 --on h1
refuses 'no host' "$LAB" migrate h0c0 h1

export FF_LAB=$OUT/lab
refuses 'hosts' "$LAB" up --hosts 0
refuses 'hosts' "$LAB" up --hosts 17
refuses 'store' "$LAB" up --store paper
refuses 'no option' "$LAB" up --frobnicate 1
refuses 'needs a value' "$LAB" up --engine
refuses 'engine' "$LAB" up --engine vm
refuses 'mode' "$LAB" up --mode fast
refuses 'containers' "$LAB" up --containers 0
refuses '1 to 83' "$LAB" up --hosts 3 --containers 84
refuses 'no image' "$LAB" up --image debian10
refuses 'no lab' "$LAB" exec h0c0 -- true
refuses 'no lab' "$LAB" partition h0
refuses 'frobnicate' "$LAB" frobnicate
[[ ! -e $FF_LAB ]] || fail "a refused lab left its folder"
exit 0
