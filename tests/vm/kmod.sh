# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# kmod.sh - what the tests of kmod's modules share on the host: the modules are built for the VM's kernel, and checked by
# sparse. Sourced first; it sources common.sh. FT_KERNEL and FT_KDIR choose another kernel, see kmod-debug. With ARCH=arm64
# the cross compiler builds the modules.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; }

read -r RELEASE <"$KERNEL/release"
if [[ -n ${NEWER-} ]]; then
	KDIR= # backports_modules() builds in a system that comes with the kernel
elif [[ -z ${ARCH-} ]]; then
	KDIR=${FT_KDIR:-/lib/modules/$RELEASE/build}
	[[ -e $KDIR/Makefile ]] || install "linux-headers-$RELEASE" || skip "no headers of $RELEASE (make deps)"
else
	KDIR=${FT_KDIR:-$(arm64_kdir "$KERNEL")} || skip "no headers of $RELEASE can be had from apt"
	export ARCH CROSS_COMPILE=aarch64-linux-gnu- CC="aarch64-linux-gnu-gcc --sysroot=$VM_ROOT"
fi

# Builds the modules and their self-tests in $TMP/kmod, outside the tree, because other tests may run at the same time. One
# run of tests/run builds them once, because only one VM test runs at a time.
kmod_build() { # [MAKE'S ARGUMENT...]
	local target=modules shared=
	[[ -z ${RUN_WORK-} ]] || shared=$RUN_WORK/kmod-$(cksum <<<"$RELEASE $KDIR $*" | cut -d ' ' -f 1)
	if [[ -n $shared && -e $shared ]]; then
		ln -s "$shared" "$TMP/kmod"
		return
	fi
	! command -v sparse >/dev/null || target=sparse
	cp -r "$TREE/kmod" "$TMP/kmod"
	make -s -C "$TMP/kmod" clean
	if [[ -n ${NEWER-} ]]; then
		{ make -s -C "$TMP/kmod" selftest && backports_modules "$KERNEL" "$TMP/kmod"; } >"$TMP/make.log" 2>&1 || {
			cat "$TMP/make.log"
			exit 1
		}
	else
		make -s -C "$TMP/kmod" KDIR="$KDIR" "$@" "$target" selftest >"$TMP/make.log" 2>&1 || {
			cat "$TMP/make.log"
			exit 1
		}
	fi
	if [[ -n $shared ]]; then
		mv "$TMP/kmod" "$shared"
		ln -s "$shared" "$TMP/kmod"
	fi
}

# Builds siw, the kernel's iWARP over TCP, into $SIW/siw.ko, once for a kernel. Debian's kernels do not have it, but their
# source package does.
siw_module() {
	local source archive
	source=linux-source-$(cut -d. -f1,2 <<<"$RELEASE")
	archive=/usr/src/$source.tar.xz
	[[ -e $archive ]] || install "$source" xz-utils || skip "no $source can be had from apt"
	# shellcheck disable=SC2034 # the caller uses it
	SIW=$(cache_once "siw-$(<"$KERNEL/version")" siw_make "$archive") || exit 1
}

siw_make() { # ARCHIVE
	mkdir src made
	tar -C src --strip-components=1 --wildcards -xf "$1" '*/drivers/infiniband/sw/siw/*'
	make -s -C "$KDIR" M="$PWD/src/drivers/infiniband/sw/siw" CONFIG_RDMA_SIW=m modules &&
		strip --strip-debug src/drivers/infiniband/sw/siw/siw.ko &&
		mv src/drivers/infiniband/sw/siw/siw.ko made/
}
