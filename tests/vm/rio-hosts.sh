#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rio-hosts.sh - the rio backend between two hosts: two VMs, each with a port of vmport's, whose switches are joined over
# UDP, ffrio and a router, and programs of a container on each; then frames of the uplink are lost, the port is reset, and
# the uplink is cut, under a load that verifies itself. All buffers are back at the unload.
#
# night: vm
# timeout: 700
. "$(dirname "$0")/rapidio.sh"

# ROLE, which is the folder's name, too
run() {
	kmod_run "$TMP/$1" "${FT_LIMIT:-500}" "$TREE/tests/vm/rio-hosts-inside.sh" "$1"
}

rapidio_build
for role in a b; do
	rapidio_folder $role
	vm_tree "$TMP/$role" || exit 1
done
vm_two run
