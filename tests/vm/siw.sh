#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# siw.sh - the verbs backend on iWARP: containers' programs on the router's NIC, which is the kernel's siw in a VM, beside
# programs that use it themselves. Debian's kernels have no siw, but their source package has; built once for a kernel.
#
# timeout: 500
. "$(dirname "$0")/kmod.sh"

siw_make() { # ARCHIVE
	mkdir src made
	tar -C src --strip-components=1 --wildcards -xf "$1" '*/drivers/infiniband/sw/siw/*'
	make -s -C "$KDIR" M="$PWD/src/drivers/infiniband/sw/siw" CONFIG_RDMA_SIW=m modules &&
		strip --strip-debug src/drivers/infiniband/sw/siw/siw.ko &&
		mv src/drivers/infiniband/sw/siw/siw.ko made/
}

source=linux-source-$(cut -d. -f1,2 <<<"$RELEASE")
archive=/usr/src/$source.tar.xz
[[ -e $archive ]] || install "$source" xz-utils || skip "no $source can be had from apt"
siw=$(cache_once "siw-$(<"$KERNEL/version")" siw_make "$archive") || exit 1

out=$TMP/siw
vm_tree "$out"
cp "$siw/siw.ko" "$out/"
kmod_run "$out" "${FT_LIMIT:-400}" "$TREE/tests/vm/siw-inside.sh"
