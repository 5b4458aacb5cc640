# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# arm64.sh - what building and running for arm64 on another machine takes: a Debian system of that architecture, unpacked
# beside the lab's images and not installed. Sourced.
. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

# Headers and libraries, as in deploy/deps, and what a shell's tests run.
ARM64_PACKAGES=libc6-dev,libibverbs-dev,librdmacm-dev,libuv1-dev,libbsd-dev,uthash-dev,libconfuse-dev,libjansson-dev
ARM64_PACKAGES+=,libsqlite3-dev,libncurses-dev,libmicrohttpd-dev,systemtap-sdt-dev,libzookeeper-st-dev,libseccomp-dev
ARM64_PACKAGES+=,libcap-ng-dev,libssl-dev,libcmocka-dev,ibverbs-utils,perftest,iproute2,procps,kmod

# Prints the system's folder, made if it is not there.
arm64_sysroot() {
	cache_once "arm64-$(cksum <<<"$ARM64_PACKAGES" | cut -d ' ' -f 1)" arm64_unpack
}

arm64_unpack() {
	local uri
	uri=$(debian_uri) && [[ -n $uri ]] || return 1
	mmdebstrap --quiet --mode=root --format=directory --architectures=arm64 --variant=extract \
		--include="$ARM64_PACKAGES" bookworm made "deb $uri bookworm main"
}

# Prints what QEMU (7.2) has not that a unit test needs; fails where nothing is known.
arm64_lacks() { # TEST, as room/test_name
	case $1 in
	cm/* | ctl/* | fast/test_xrc) echo "QEMU's /proc/self/maps is a file of its own: the router takes no such client" ;;
	ffl/mem/test_fork | ffl/mem/test_heat | ffl/mem/test_malloc | ffl/mem/test_mr | ffl/mem/test_region*) echo "no userfaultfd in QEMU" ;;
	fast/test_pvm | fast/test_roles) echo "no userfaultfd in QEMU, which has threads of its own" ;;
	ffl/session/test_context) echo "QEMU's vfork is fork" ;;
	*) return 1 ;;
	esac
}
