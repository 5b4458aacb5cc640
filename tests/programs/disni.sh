#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 600
# disni.sh - DiSNI, which calls verbs and rdma_cm from Java: its examples SendRecv and Read, whose texts arrive. The JVM and
# the jars are Debian's.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/programs.sh"

needs disni/classes disni/libdisni.so
JARS=/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-nop.jar:/usr/share/java/commons-cli.jar
command -v java >/dev/null || skip "no java (apt-get install --no-install-recommends default-jre-headless)"
for jar in ${JARS//:/ }; do
	[[ -e $jar ]] || skip "no $jar (apt-get install libslf4j-java libcommons-cli-java)"
done
JAVA=(java -cp "$PROGRAMS/disni/classes:$JARS" "-Djava.library.path=$PROGRAMS/disni"
	--add-exports java.base/sun.nio.ch=ALL-UNNAMED)

# example NAME SERVER-SAYS CLIENT-SAYS: both sides end well and print that.
example() {
	local job status=0 address
	step "DiSNI's $1"
	address=$("$LAB" ip "$A")
	((++PORT))
	timeout 120 "$LAB" exec "$A" -- "${JAVA[@]}" "com.ibm.disni.examples.$1Server" -a "$address" -p $PORT >"$OUT/server" 2>&1 </dev/null &
	job=$!
	wait_for 60 grep -q 'bound to address' "$OUT/server" || fail "the server: $(<"$OUT/server")"
	timeout 120 "$LAB" exec "$B" -- "${JAVA[@]}" "com.ibm.disni.examples.$1Client" -a "$address" -p $PORT >"$OUT/client" 2>&1 </dev/null ||
		status=$?
	wait $job || status=$?
	if ((status)) || ! grep -a "$2" "$OUT/server" || ! grep -a "$3" "$OUT/client"; then
		fail "status $status: $(<"$OUT/client") $(<"$OUT/server")"
	fi
}

moved 200 example SendRecv '^Message from the client: Hello from the client' '^Message from the server: Hello from the server'
moved 100 example Read '^ReadServer::final message' '^ReadClient::read memory from server: This is a RDMA/read on stag'
