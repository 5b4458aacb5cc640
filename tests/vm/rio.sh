#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rio.sh - the rio backend: two routers of one VM, each on a port of vmport's by ffrio, and programs of a container on
# each; then the port is reset, and its link cut, under a load that verifies itself. All buffers are back at the unload.
#
# night: vm
# timeout: 500
. "$(dirname "$0")/rapidio.sh"

rapidio_build
rapidio_folder rio
vm_tree "$TMP/rio" || exit 1
cp "$TREE/deploy/grafana/freeflow.json" "$TMP/rio/"
kmod_run "$TMP/rio" "${FT_LIMIT:-400}" "$TREE/tests/vm/rio-inside.sh"
