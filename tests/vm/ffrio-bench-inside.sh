# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ffrio-bench-inside.sh SECONDS - tests/bench/ffrio-vm's part in its VM: ffrio_perf between two ports of vmport, whose
# receiver does not copy. Rounds of all sizes, ways and `checksum` on and off follow one another until the time is
# over. Prints for each the shortest time of a message and the least CPU time of its sender, both in microseconds.
# shellcheck source=/dev/null
. /out/rapidio-inside.sh

lab_ports 2 /out/ffrio_perf
load ffrio
id=$(cat /sys/class/rapidio_port/rapidio1/port_destid)
/tmp/ffrio_perf -p 1 -z -l &
await /tmp/ffrio_perf -n 1 -s 16 "$id" >/dev/null

# "CHECKSUM BYTES WAY MB/S PERCENT"
measure() {
	local sum bytes way n
	for sum in Y N; do
		echo $sum >/sys/module/ffrio/parameters/checksum
		for bytes in 4096 8192 16384 32768 65536 131072 262144 524288 1048576 4194304; do
			n=$((bytes < 1048576 ? 1048576 / bytes : 1))
			for way in "" -w -r; do
				# shellcheck disable=SC2086 # no option at all for a copy
				/tmp/ffrio_perf $way -n $n -s $bytes "$id" |
					sed -n "s/.*: \([0-9.]*\) MB.s, \([0-9]*\) .*/$sum $bytes ${way:-copy} \1 \2/p"
			done
		done
	done
}

end=$((SECONDS + $1))
for ((round = 0; round == 0 || SECONDS < end; round++)); do measure; done | awk '
	function keep(least, key, value) { if (!(key in least) || value < least[key]) least[key] = value }
	$4 > 0 {
		key = $1 " " $2
		if (!(key in count)) keys[n++] = key
		count[key]++
		keep(us, key $3, $2 / $4)
		keep(cpu, key $3, $2 / $4 * $5 / 100)
	}
	END {
		print "checksum bytes  copied: us, of CPU  copied, one by one (-w)  from pages (-r)  rounds"
		for (i = 0; i < n; i++) {
			split(keys[i], k, " ")
			printf "%s %8d ", k[1], k[2]
			m = split("copy -w -r", way, " ")
			for (w = 1; w <= m; w++) printf " %8.0f %8.0f", us[keys[i] way[w]], cpu[keys[i] way[w]]
			print "  " count[keys[i]] / m
		}
	}'
kill %1
wait
rmmod ffrio || fail "unload with peers"
