# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# kmod.sh - what the tests of kmod's modules have in common: built by sparse for the VM's kernel, run
# there, and the kernel's log without a complaint. Sourced first. FT_KERNEL and FT_KDIR: another kernel,
# see kmod-debug. With ARCH=arm64 the cross compiler builds them.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; }

read -r RELEASE <"$KERNEL/release"
if [[ -n ${NEWER-} ]]; then
	KDIR= # modules are built in the kernel's own system
elif [[ -z ${ARCH-} ]]; then
	KDIR=${FT_KDIR:-/lib/modules/$RELEASE/build}
	[[ -e $KDIR/Makefile ]] || install "linux-headers-$RELEASE" || skip "no headers of $RELEASE (make deps)"
else
	KDIR=${FT_KDIR:-$(arm64_kdir "$KERNEL")} || skip "no headers of $RELEASE can be had from apt"
	export ARCH CROSS_COMPILE=aarch64-linux-gnu- CC="aarch64-linux-gnu-gcc --sysroot=$VM_ROOT"
fi

# The modules and their self-tests, in $TMP/kmod: outside the tree, where others may run beside; once in a run of tests/run.
kmod_build() { # [MAKE'S ARGUMENT...]
	local target=modules shared=
	[[ -z ${WORK-} ]] || shared=$WORK/kmod-$(cksum <<<"$RELEASE $KDIR $*" | cut -d ' ' -f 1)
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

# Runs, and looks at what the kernel said.
kmod_run() { # FOLDER SECONDS SCRIPT [ARG...]
	local status
	vm_run "$KERNEL" "$@"
	status=$?
	! grep -qaE 'BUG|WARNING|Oops|Call Trace|INFO: task|general protection|Bad page|Kernel panic|Poison' \
		"$1/console" || status=1
	((status == 0)) || cat "$1/console"
	return $status
}

# siw, the kernel's iWARP by TCP, is not in Debian's kernels, but in their source package; built once for a kernel, into
# $SIW/siw.ko.
siw_module() {
	local source archive
	source=linux-source-$(cut -d. -f1,2 <<<"$RELEASE")
	archive=/usr/src/$source.tar.xz
	[[ -e $archive ]] || install "$source" xz-utils || skip "no $source can be had from apt"
	# shellcheck disable=SC2034 # who calls it
	SIW=$(cache_once "siw-$(<"$KERNEL/version")" siw_make "$archive") || exit 1
}

siw_make() { # ARCHIVE
	mkdir src made
	tar -C src --strip-components=1 --wildcards -xf "$1" '*/drivers/infiniband/sw/siw/*'
	make -s -C "$KDIR" M="$PWD/src/drivers/infiniband/sw/siw" CONFIG_RDMA_SIW=m modules &&
		strip --strip-debug src/drivers/infiniband/sw/siw/siw.ko &&
		mv src/drivers/infiniband/sw/siw/siw.ko made/
}
