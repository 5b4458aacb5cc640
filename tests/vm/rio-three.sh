#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rio-three.sh - the rio backend among three: routers of one VM, each on a port of one switch of vmport's, and a load that
# verifies itself between each two of them; one router is killed under it and begins anew, which the other two do not
# notice, and nothing that was reported is missing. All buffers are back at the unload.
#
# night: vm
# timeout: 500
. "$(dirname "$0")/rapidio.sh"

rapidio_build
rapidio_folder three
vm_tree "$TMP/three" || exit 1
kmod_run "$TMP/three" "${FT_LIMIT:-400}" "$TREE/tests/vm/rio-three-inside.sh"
