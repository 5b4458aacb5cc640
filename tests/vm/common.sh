# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# common.sh - what tests/vm/*.sh and tests/arm64/*.sh share on the host: virtual machines (tests/rig/shell/vm.sh), which have the
# kernel's own RDMA and this tree's build. Sourced first, or by kmod.sh.
#
# A test is one file for both sides. On the host, where FT_IN_VM is not set, it starts a VM that runs the test itself:
#
#	if [[ ! -v FT_IN_VM ]]; then
#		. "$(dirname "$0")/common.sh"
#		vm_test 500 "$0"
#		exit
#	fi
#	. /out/tree/tests/vm/inside.sh
#	(the commands that run in the VM)
#
#	vm_test SECONDS SCRIPT [ARG...]		runs the script in a VM, as root, in /out, with the tree in /out/tree
#	vm_checked FOLDER SECONDS SCRIPT [ARG...]	runs the script in a VM whose /out is the folder
#	vm_two COMMAND...	runs the command with `a` and with `b` as its last argument, at the same time. The VMs that
#			it starts have VM_NETS (1) NICs to each other.
#
# vm_test and vm_checked fail if the script fails, or if the kernel complained.
#
# Set before this file is sourced: ARCH=arm64 for a VM of that processor and a build for it, with FT_PAGES=16k or 64k for a
# kernel with pages of that size; NEWER=1 for the newest kernel (tests/rig/shell/backports.sh). FT_KERNEL is a kernel of your own.
# With FF_BRIEF, in CI, a VM has one CPU, tests load modules 20 times, and FT_BRIEF is set in the VM.
set -u -o pipefail

TREE=$(readlink -f "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../..")
BUILD=${BUILD:-$TREE/build${ARCH:+-aarch64}}
# One CPU costs a third less where it is emulated. FT_ variables are known in the VM, too.
if [[ -n ${FF_BRIEF-} ]]; then
	VM_CPUS=${VM_CPUS:-1}
	export FT_BRIEF=1 "FT_LOADS=${FT_LOADS:-20}"
fi
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

# Copies what a lab and its programs need of this tree into OUT, which will be a VM's /out.
vm_tree() { # OUT
	mkdir -p "$1/tree/build" "$1/tree/tests/conformance"
	cp -r "$BUILD"/{bin,lib} "$1/tree/build/"
	# The programs are 400 MB, so link them; leave out the objects that they are made of.
	(cd "$BUILD" && find tests -type f ! -name '*.[od]' | cpio -pdl --quiet "$1/tree/build")
	cp -r "$TREE"/tests/{lab,rig,vm} "$1/tree/tests/"
	cp "$TREE/tests/conformance/pyverbs.py" "$1/tree/tests/conformance/"
	cp -r "$TREE/deploy" "$1/tree/" # one test reads an example of it
}

# Prints the complaints in a kernel's log and fails if there are any, or if there is no log. vm.sh sets the kernel's log
# level such that warnings are in it; kernel-log.sh tests that.
vm_log_clean() { # CONSOLE
	[[ -s $1 ]] && ! grep -aE "$VM_COMPLAINTS" "$1"
}
VM_COMPLAINTS='\bBUG\b|\bWARNING\b|\bOops\b|Call [Tt]race|INFO: task|general protection|Bad page|Kernel panic|Poison'
VM_COMPLAINTS+='|Internal error|Unable to handle kernel' # how arm64 says Oops

vm_checked() {
	local status
	vm_run "$KERNEL" "$@"
	status=$?
	vm_log_clean "$1/console" || status=1
	((status == 0 || status == 77)) || cat "$1/console"
	return $status
}

vm_test() {
	local out
	out=$(mktemp -d "$TMP/out.XXXXXX")
	vm_tree "$out"
	vm_checked "$out" "$@"
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

# Sets the NICs of the next VM: one in each of VM_NETS networks. A network is a pair of UDP ports of this machine.
vm_nics() { # FIRST-PORT 0|1
	local n from to
	VM_ARGS=()
	for ((n = 0; n < VM_NETS; n++)); do
		from=$(($1 + 2 * n + $2)) to=$(($1 + 2 * n + 1 - $2))
		VM_ARGS+=(-netdev "dgram,id=n$n,local.type=inet,local.host=127.0.0.1,local.port=$from,remote.type=inet,remote.host=127.0.0.1,remote.port=$to"
			-device "virtio-net-pci,netdev=n$n,mac=52:54:00:00:0$n:0$2")
	done
}
