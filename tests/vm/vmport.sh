#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# vmport.sh - kmod's vmport.ko in VMs with Debian's kernel and that kernel's own RapidIO as modules: sparse;
# in one VM three ports, enumerated through the switch, with the self-test, rio_cm and rionet, and a
# hundred loads; then two VMs whose switches are joined over UDP. With FT_KERNEL and FT_KDIR on that
# kernel, see kmod-debug.
# timeout: 600
. "$(dirname "$0")/rapidio.sh"

rapidio_build

# ROLE, which is the folder's name, too
run() {
	kmod_run "$TMP/$1" "${FT_LIMIT:-240}" "$TREE/tests/vm/vmport-inside.sh" "$1"
}

status=0
rapidio_folder one vmport_test
run one || status=1
rapidio_folder a vmport_test
rapidio_folder b vmport_test
vm_two run || status=1
exit $status
