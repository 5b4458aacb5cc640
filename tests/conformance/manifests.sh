#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# manifests.sh - deploy/kubernetes against the schemas of Kubernetes (tests/conformance/manifests.py), and whether what is wrong
# is found.
. "$(dirname "$0")/common.sh"

/usr/bin/python3 -c 'import jsonschema, yaml' 2>/dev/null || skip "no python3-jsonschema, python3-yaml (make deps)"
cd "$TREE" || exit
look() { # FILE...
	/usr/bin/python3 tests/conformance/manifests.py "$@"
}
if out=$(look deploy/kubernetes/*.yaml); then
	ok "manifests: $out"
else
	not_ok manifests "$out"
fi
# The image and the packages of a node are of one release.
version=$(sed -n 's/^#define FF_VERSION "\(.*\)"/\1/p' ffr/lib/version.h)
if others=$(grep -n 'image: freeflow' deploy/kubernetes/*.yaml | grep -v ":$version\$"); then
	not_ok "images of release $version" "$others"
else
	ok "images of release $version"
fi
wrong() { # FILE SED-COMMAND: that change of the file is found
	local files=()
	sed "$2" "deploy/kubernetes/$1" >"$TMP/$1"
	mapfile -t files < <(find deploy/kubernetes -name '*.yaml' ! -name "$1")
	if cmp -s "$TMP/$1" "deploy/kubernetes/$1"; then
		not_ok "$1, $2" "it changes nothing"
	elif look "${files[@]}" "$TMP/$1" >"$TMP/out"; then
		not_ok "$1, $2" "nothing is found"
	else
		ok "$1, $2"
	fi
}
wrong router.yaml 's/hostPID/hostPid/'
wrong router.yaml '0,/app: freeflow-router/s//app: other/'
wrong plugin.yaml 's/mountPath: /mountpath: /'
wrong plugin.yaml 's/- name: plugins$/- name: others/'
wrong zookeeper.yaml 's/replicas: 3/replicas: "3"/'
wrong zookeeper.yaml 's/serviceName: zookeeper/serviceName: keeper/'
wrong orchestrator.yaml 's/claimName: freeflow-store/claimName: store/'
wrong rbac.yaml 's/kind: Group/kind: Crowd/'
wrong pod.yaml 's/freeflow.io\/rdma: 1/freeflow.io\/rdma: one/'
finish
