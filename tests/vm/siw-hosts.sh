#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# siw-hosts.sh - the verbs backend on iWARP between two hosts: two VMs, each with a router that has the kernel's siw for a
# NIC, and programs beside it that use siw themselves. Not part of every run: siw of Linux 6.1 loses the first message of some
# connections on a busy machine (docs/nic.md). The pair ends after a minute then, and fails; the others do not.
#
# night: vm
# timeout: 600
. "$(dirname "$0")/kmod.sh"
VM_APPEND=${VM_APPEND/norandmaps/} # what siw writes to is at the program's addresses, which must not be the router's own

run() { # a|b
	vm_tree "$TMP/siw-$1"
	cp "$SIW/siw.ko" "$TMP/siw-$1/"
	kmod_run "$TMP/siw-$1" "${FT_LIMIT:-500}" "$TREE/tests/vm/siw-hosts-inside.sh" "$1"
}

siw_module
vm_two run
