# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# backports.sh - a kernel that is newer than this release's, for vm.sh: that of Debian 13's backports, whose rxe has on-demand
# paging. Its headers and the compiler that they want are a system of their own, in which modules are built. Sourced after vm.sh.

BACKPORTS_PACKAGES=linux-image-amd64,linux-headers-amd64,busybox-static,gcc,make,bash,dash,coreutils,findutils,grep,sed,gawk

# Prints the folder of the kernel, as vm_kernel() does; in its `root` is the system.
backports_kernel() {
	vm_tools qemu-system-x86 mmdebstrap xz-utils >&2 && cache_once kernel-trixie-backports backports_unpack
}

backports_unpack() {
	local uri release
	uri=$(debian_uri) && [[ -n $uri ]] || return 1
	mmdebstrap --quiet --mode=root --format=directory --variant=extract --aptopt='APT::Default-Release "trixie-backports"' \
		--include="$BACKPORTS_PACKAGES" trixie root "deb $uri trixie main" "deb $uri trixie-backports main" || return 1
	ln -sf dash root/usr/bin/sh && ln -sf gawk root/usr/bin/awk && mkdir -p root/kmod made/lib || return 1
	mv root/usr/lib/modules made/lib/modules && release=$(ls made/lib/modules) &&
		mv "made/lib/modules/$release/vmlinuz" made/vmlinuz && depmod -b made "$release" &&
		echo "$release" >made/release && vm_initrd made root/usr/bin/busybox && mv root made/root
}

# Builds the modules of the folder KMOD, which is this tree's kmod copied, where they are.
backports_modules() { # KERNEL-FOLDER KMOD
	local release
	read -r release <"$1/release"
	# shellcheck disable=SC2016
	unshare -m --propagation private bash -c '
		mount --bind "$2" "$1/root/kmod" && mount --bind /dev "$1/root/dev" && mount -t proc proc "$1/root/proc" &&
			PATH=/usr/sbin:/usr/bin chroot "$1/root" make -s -C /kmod KDIR="/usr/src/linux-headers-$3" modules' - "$1" "$2" "$release"
}
