# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# common.sh - what tests/vm/*.sh and tests/arm64/*.sh have in common: virtual machines (tests/rig/shell/vm.sh), in which the kernel's
# own RDMA is, with this tree's build. Sourced first, or by kmod.sh.
#
#	vm_test SECONDS SCRIPT [ARG...]	runs the script there, as root, in /out
#			of the other processor with ARCH=arm64 said before this file, and with that build
#			(FT_PAGES=16k or 64k: with a kernel of such pages there); on the newest kernel (tests/rig/shell/backports.sh)
#			with NEWER=1
#	vm_two COMMAND...	the command with `a` and with `b` behind it, whose VMs have a NIC to each other; VM_NETS: so many
#
# In the VM, SCRIPT finds the tree in /out/tree, and in /out/tree/tests/vm/inside.sh what else it may need.
set -u -o pipefail

TREE=$(readlink -f "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../..")
BUILD=${BUILD:-$TREE/build${ARCH:+-aarch64}}
. "$TREE/tests/rig/shell/vm.sh"
[[ -z ${ARCH-} ]] || . "$TREE/tests/rig/shell/arm64.sh"
TMP=$(mktemp -d "${WORK:-/tmp}/vm.XXXXXX")
trap 'rm -rf "$TMP"' EXIT
trap 'exit 130' TERM INT

skip() {
	echo "$*"
	exit 77
}

((EUID == 0)) || skip "needs root for a VM"
if [[ -n ${NEWER-} ]]; then
	. "$TREE/tests/rig/shell/backports.sh"
	KERNEL=$(backports_kernel) || skip "no kernel of Debian's backports can be had from apt"
elif [[ -z ${ARCH-} ]]; then
	KERNEL=${FT_KERNEL:-$(vm_kernel)} || skip "no kernel or no QEMU can be had from apt"
else
	arm64_vm || skip "no Debian for arm64, or no QEMU, can be had from apt"
	KERNEL=${FT_KERNEL:-$(arm64_pages "${FT_PAGES:-4k}")} || skip "no kernel for arm64 can be had from apt"
fi

# What a lab and its programs need of this tree, for a VM whose /out that is.
vm_tree() { # OUT
	mkdir -p "$1/tree/build" "$1/tree/tests/conformance"
	cp -r "$BUILD"/{bin,lib} "$1/tree/build/"
	# the programs, 400 MB, without the objects that they are made of
	(cd "$BUILD" && find tests -type f ! -name '*.[od]' | cpio -pdl --quiet "$1/tree/build")
	cp -r "$TREE"/tests/{lab,rig,vm} "$1/tree/tests/"
	cp "$TREE/tests/conformance/pyverbs.py" "$1/tree/tests/conformance/"
	cp -r "$TREE/deploy" "$1/tree/" # an example is read
}

vm_test() {
	local status out
	out=$(mktemp -d "$TMP/out.XXXXXX")
	vm_tree "$out"
	vm_run "$KERNEL" "$out" "$@"
	status=$?
	((status == 0)) || tail -n 50 "$out/console"
	! grep -aE 'BUG:|WARNING:|Oops|Call Trace' "$out/console" || status=1
	return $status
}

vm_two() {
	local port=$((20000 + ($$ * 2 * VM_NETS) % 20000)) status=0 pid
	vm_nics $port 0
	"$@" a >"$TMP/a.out" 2>&1 &
	pid=$!
	vm_nics $port 1
	"$@" b >"$TMP/b.out" 2>&1 || status=1
	wait $pid || status=1
	sed 's/^/a: /' "$TMP/a.out"
	sed 's/^/b: /' "$TMP/b.out"
	return $status
}
VM_NETS=${VM_NETS:-1}

# The next VM's NICs, over UDP on this machine: one in each of VM_NETS networks, each of which has two ports of it.
vm_nics() { # FIRST-PORT 0|1
	local n from to
	VM_ARGS=()
	for ((n = 0; n < VM_NETS; n++)); do
		from=$(($1 + 2 * n + $2)) to=$(($1 + 2 * n + 1 - $2))
		VM_ARGS+=(-netdev "dgram,id=n$n,local.type=inet,local.host=127.0.0.1,local.port=$from,remote.type=inet,remote.host=127.0.0.1,remote.port=$to"
			-device "virtio-net-pci,netdev=n$n,mac=52:54:00:00:0$n:0$2")
	done
}
