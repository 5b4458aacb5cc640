#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 300
# ci.sh - deploy/ci/with-rdma as another project's CI job runs it: by a user without rights, programs of the image; and the
# example's own commands.
. "$(dirname "$0")/../rig/shell/lab.sh"

mkdir -p "$OUT/freeflow/bin"
cp "$BUILD"/bin/{ffr,ffctl} "$OUT/freeflow/bin/"
cp -r "$BUILD/lib" "$OUT/freeflow/"
cp "$TREE/deploy/ci/with-rdma" "$OUT/"
chmod -R o+rX "$OUT"
# Its ports are nobody else's.
nobody() { # COMMAND...
	# shellcheck disable=SC2016
	unshare --net sh -c 'ip link set lo up && exec "$@"' - setpriv --reuid 65534 --regid 65534 --clear-groups \
		env FREEFLOW="$OUT/freeflow" HOME=/nonexistent PATH="$OUT:$PATH" "$@"
}
before=(/tmp/with-rdma.*)

step "the example"
sed -n '/with-rdma a b/,$p' "$TREE/deploy/ci/workflow.yml" | sed '1s/.*with-rdma/with-rdma/' >"$OUT/example"
grep -q 'as b ibv_rc_pingpong' "$OUT/example" || fail "the example is another one"
nobody bash -e "$OUT/example" >"$OUT/log" 2>&1 || fail "$(<"$OUT/log")"
(($(grep -c '1000 iters' "$OUT/log") == 2)) || fail "$(<"$OUT/log")"

# The action's own command, with the user without rights in the place of docker's container.
step "the action"
/usr/bin/python3 - "$TREE" "$OUT" <<'PYTHON' || fail "deploy/ci/action.yml and the example do not go together"
import sys, yaml

tree, out = sys.argv[1:]
action = yaml.safe_load(open(f"{tree}/deploy/ci/action.yml"))
use = yaml.safe_load(open(f"{tree}/deploy/ci/workflow.yml"))["jobs"]["rdma-in-a-container"]["steps"][-1]["with"]
unknown = set(use) - set(action["inputs"])
sys.exit(f"no such inputs: {unknown}") if unknown else None
step = action["runs"]["steps"][-1]
open(f"{out}/step", "w").write(step["run"])
open(f"{out}/commands", "w").write(use["run"])
open(f"{out}/containers", "w").write(action["inputs"]["containers"]["default"])
PYTHON
docker() { # run OPTION... rdma-ci COMMAND...
	while [[ $1 != rdma-ci ]]; do shift; done
	nobody "${@:2}"
}
export -f docker nobody
export OUT
COMMANDS=$(<"$OUT/commands") CONTAINERS=$(<"$OUT/containers") PACKAGES='' GITHUB_WORKSPACE=/nonexistent bash -e "$OUT/step" \
	>"$OUT/log" 2>&1 || fail "$(<"$OUT/log")"
(($(grep -c '1000 iters' "$OUT/log") == 2)) || fail "$(<"$OUT/log")"

step "the names of devices"
nobody "$OUT/with-rdma" --device-name mlx5_0 --devices 2 a -- as a ibv_devices >"$OUT/log" 2>&1 || fail "$(<"$OUT/log")"
[[ $(awk '/mlx5/ { print $1 }' "$OUT/log" | xargs) == "mlx5_0 mlx5_1" ]] || fail "$(<"$OUT/log")"
nobody "$OUT/with-rdma" --device-name a/b a -- true >"$OUT/log" 2>&1 && fail "a/b is a name"
grep -q '"a/b" is no name of a device' "$OUT/log" || fail "$(<"$OUT/log")"

step "the device below /sys/class, beside the other classes"
# shellcheck disable=SC2016
look='id -u; grep ^CapEff: /proc/self/status; cat /sys/class/infiniband/ff0/ports/1/gid_attrs/types/0 /sys/class/infiniband_verbs/*/ibdev;
	for class in /sys/class/*; do [ -e "$class" ] && echo "${class##*/}"; done; for i in /sys/class/net/*; do cat "$i"/ifindex; done'
nobody "$OUT/with-rdma" a -- as a sh -c "$look" >"$OUT/log" 2>&1 || fail "$(<"$OUT/log")"
[[ $(head -n 4 "$OUT/log" | xargs) == "65534 CapEff: 0000000000000000 RoCE v2 ff0" ]] || fail "$(<"$OUT/log")"
classes=$(cd /sys/class && printf '%s\n' * infiniband infiniband_verbs | sort -u)
[[ $(sed '1,4d' "$OUT/log") == "$classes"$'\n'"$(cat /sys/class/net/*/ifindex)" ]] || fail "$(<"$OUT/log")"
FREEFLOW=$OUT/freeflow "$OUT/with-rdma" a -- as a sh -c "$look" >"$OUT/log" 2>&1 || fail "$(<"$OUT/log")"
grep -qx 'RoCE v2' "$OUT/log" || fail "$(<"$OUT/log")"

step "a job that may have no namespaces"
printf '#!/bin/sh\nexit 1\n' >"$OUT/unshare"
chmod +x "$OUT/unshare"
nobody "$OUT/with-rdma" a -- as a ibv_devices >"$OUT/log" 2>&1 || fail "$(<"$OUT/log")"
grep -q 'ff0' "$OUT/log" || fail "$(<"$OUT/log")"
rm "$OUT/unshare"

step "status and messages"
nobody "$OUT/with-rdma" a -- sh -c 'exit 7' >"$OUT/log" 2>&1
[[ $? == 7 ]] || fail "its status is not the command's: $(<"$OUT/log")"
nobody "$OUT/with-rdma" a -- as b true >"$OUT/log" 2>&1 && fail "b is there"
grep -q 'as: no container b' "$OUT/log" || fail "$(<"$OUT/log")"
FREEFLOW=/nonexistent "$OUT/with-rdma" a -- true >"$OUT/log" 2>&1 && fail "without freeflow"
# shellcheck disable=SC2016 # with-rdma prints it so
grep -qF 'no /nonexistent/bin/ffr: in a clone of freeflow run make, then set FREEFLOW=$PWD/build' "$OUT/log" || fail "$(<"$OUT/log")"

step "ffctl asks the job's router, and a build's folder may be relative"
# shellcheck disable=SC2016
(cd "$OUT" && nobody env FREEFLOW=freeflow with-rdma a -- sh -ec '
	cd /
	as a ibv_devices
	ffctl container set a --tx-rate 1Gbit
	ffctl --admin /nonexistent ping || echo "no router there"') >"$OUT/log" 2>&1 || fail "$(<"$OUT/log")"
grep -q 'ff0' "$OUT/log" || fail "$(<"$OUT/log")"
grep -qx 'tx-rate: none -> 1Gbit' "$OUT/log" || fail "$(<"$OUT/log")"
grep -qx 'no router there' "$OUT/log" || fail "$(<"$OUT/log")"
after=(/tmp/with-rdma.*)
[[ ${#after[@]} == "${#before[@]}" ]] || fail "something is left: ${after[*]}"
exit 0
