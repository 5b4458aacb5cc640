# shellcheck shell=bash disable=SC2034 # what vm.sh uses
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# arm64.sh - what building and running for arm64 on another machine takes: a Debian system of that architecture, unpacked
# beside the lab's images and not installed. Sourced.
ARM64_TREE=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../../..")
. "$ARM64_TREE/tests/rig/shell/cache.sh"

# Headers and libraries, as in deploy/deps; and what the lab is made with, and its programs, where that system runs by
# itself, in a VM.
ARM64_PACKAGES=libc6-dev,libibverbs-dev,librdmacm-dev,libuv1-dev,libbsd-dev,uthash-dev,libconfuse-dev,libjansson-dev
ARM64_PACKAGES+=,libsqlite3-dev,libncurses-dev,libmicrohttpd-dev,systemtap-sdt-dev,libzookeeper-st-dev,libseccomp-dev
ARM64_PACKAGES+=,libcap-ng-dev,libssl-dev,libnghttp2-dev,libprotobuf-c-dev
ARM64_PACKAGES+=,libcmocka-dev,ibverbs-utils,rdmacm-utils,perftest,iproute2,procps,kmod
ARM64_PACKAGES+=,bash,dash,coreutils,diffutils,findutils,grep,sed,mawk,hostname,mount,util-linux,libc-bin,base-files
ARM64_PACKAGES+=,iputils-ping,busybox-static

# Prints the system's folder, made if it is not there.
arm64_sysroot() {
	cache_once "arm64-$(cksum <<<"$ARM64_PACKAGES" | cut -d ' ' -f 1)" arm64_system
}

arm64_unpack() { # SUITE PACKAGES FOLDER [OPTION OF MMDEBSTRAP...]
	local uri
	uri=$(debian_uri) && [[ -n $uri ]] || return 1
	mmdebstrap --quiet --mode=root --format=directory --architectures=arm64 --variant=extract \
		--include="$2" "${@:4}" "$1" "$3" "deb $uri $1 main"
}

# With what maintainer scripts would make, as image_finish() (tests/lab/image.sh) has it; and with what dpkg-shlibdeps asks
# an installed package for, where it asks.
arm64_system() {
	# shellcheck disable=SC2016 # words for mmdebstrap's shell
	arm64_unpack bookworm "$ARM64_PACKAGES" made --extract-hook='
		for deb in "$1"/var/cache/apt/archives/*.deb; do
			for file in shlibs symbols; do
				to=$1/var/lib/dpkg/info/$(basename "${deb%%_*}"):arm64.$file
				dpkg-deb -I "$deb" $file >"$to" 2>/dev/null || rm "$to"
			done
		done' || return 1
	# libtinfo.so would be this machine's, which is not there, and the linker would take libtinfo.a
	find made/lib made/usr/lib -type l -lname '/*' -printf '%l %p\n' | while read -r target link; do
		ln -sfr "made$target" "$link"
	done
	[[ -e made/bin/sh ]] || ln -s dash made/bin/sh
	ln -sf mawk made/usr/bin/awk
	printf '%s\n' root:x:0:0:root:/root:/bin/bash nobody:x:65534:65534::/nonexistent:/bin/sh >made/etc/passwd
	printf '%s\n' root:x:0: nogroup:x:65534: >made/etc/group
}

# For vm.sh: a machine of that architecture, with that system as its root. Pointers are signed by an algorithm of QEMU's
# own, since the architected one takes most of an emulated processor's time.
arm64_vm() {
	vm_tools qemu-system-arm mmdebstrap >&2 && VM_ROOT=$(arm64_sysroot) || return 1
	VM_MACHINE=(qemu-system-aarch64 -machine virt -cpu "max,pauth-impdef=on")
	VM_CONSOLE=ttyAMA0
}

# Prints the folder of a kernel for it, as vm_kernel() does.
arm64_kernel() { # SUITE PACKAGE
	cache_once "kernel-$1-$2" arm64_kernel_unpack "$@"
}

arm64_kernel_unpack() {
	local release dir=root
	arm64_unpack "$1" "$2,busybox-static" root || return 1
	[[ -d root/lib/modules ]] || dir=root/usr # from Debian 13 on
	mkdir -p made/lib && mv root/boot/vmlinuz-* made/vmlinuz && mv $dir/lib/modules made/lib/modules || return 1
	release=$(ls made/lib/modules)
	depmod -b made "$release" && echo "$release" >made/release && vm_initrd made $dir/bin/busybox
}

# Prints the folder of a kernel with pages of that size.
arm64_pages() { # 4k|16k|64k
	case $1 in
	4k) arm64_kernel bookworm linux-image-arm64 ;;
	16k) arm64_kernel trixie linux-image-arm64-16k ;;
	64k) cache_once "kernel-arm64-64k-$(arm64_64k_config | cksum | cut -d ' ' -f 1)" arm64_64k_build ;;
	*)
		echo "pages of 4k, 16k or 64k, not $1" >&2
		return 1
		;;
	esac
}

# Debian has none of 64 KB: made of its source, in 20 minutes on two busy CPUs. `source` is where modules are built for it.
arm64_64k_build() {
	local make=(nice -n 15 make -s -C made/source ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
	vm_tools linux-source-6.1 flex bison bc libssl-dev xz-utils && arm64_unpack bookworm busybox-static root &&
		mkdir made && tar -xf /usr/src/linux-source-6.1.tar.xz && mv linux-source-6.1 made/source &&
		"${make[@]}" tinyconfig && arm64_64k_config >fragment &&
		(cd made/source && scripts/kconfig/merge_config.sh -m .config ../../fragment >/dev/null) &&
		"${make[@]}" olddefconfig && "${make[@]}" -j"$(nproc)" Image modules &&
		"${make[@]}" INSTALL_MOD_PATH="$PWD/made" modules_install &&
		"${make[@]}" --no-print-directory kernelrelease >made/release &&
		mv made/source/arch/arm64/boot/Image made/vmlinuz && vm_initrd made root/bin/busybox
}

arm64_64k_config() {
	sed '/^# what finds mistakes/,$d' "$ARM64_TREE/kmod/debug.config"
	cat "$ARM64_TREE/tests/rig/tools/arm64-64k.config"
}

# Prints where modules are built for such a kernel.
arm64_kdir() { # KERNEL-FOLDER
	if [[ -d $1/source ]]; then echo "$1/source"; else arm64_headers bookworm "$(cat "$1/release")"; fi
}

# Prints the folder of the headers of such a kernel, for modules: with the tools of this machine, from the package of its
# own kernel's headers, in the place of those for arm64.
arm64_headers() { # SUITE RELEASE
	local folder
	folder=$(cache_once "headers-$1-$2" arm64_headers_unpack "$@") && echo "$folder/linux-headers-$2"
}

arm64_headers_unpack() {
	local kbuild dir
	kbuild=linux-kbuild-$(cut -d . -f 1-2 <<<"$2")
	vm_tools "$kbuild" && arm64_unpack "$1" "linux-headers-$2" root && mv root/usr/src made || return 1
	for dir in made/linux-headers-*; do
		ln -sfn "/usr/lib/$kbuild/scripts" "$dir/scripts"
		ln -sfn "/usr/lib/$kbuild/tools" "$dir/tools"
	done
	sed -i "s|^include /usr/src/|include $FF_CACHE/headers-$1-$2/|" "made/linux-headers-$2/Makefile"
}
