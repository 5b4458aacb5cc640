# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rapidio.sh - what the tests of kmod's RapidIO modules share on the host: the kernel's own RapidIO, and our modules built
# against it. Sourced first; it sources kmod.sh.
#
#	rapidio_build		builds the modules and their self-tests
#	rapidio_folder NAME FILE...	makes $TMP/NAME, a VM's /out, with the modules and these files of kmod/build
VM_CPUS=${VM_CPUS:-2} # also in CI: what may race in a module needs two
. "$(dirname "${BASH_SOURCE[0]}")/kmod.sh"

# The folder of the kernel's RapidIO modules, built once for a kernel. A kernel of kmod-debug has RapidIO already.
rapidio=
if ! grep -q '^CONFIG_RAPIDIO=' "$KDIR/.config"; then
	rapidio=$FF_CACHE/rapidio-$(cat "$KERNEL/version" 2>/dev/null || echo "$RELEASE")
	if [[ ! -e $rapidio/release ]]; then
		source=linux-source-$(cut -d. -f1,2 <<<"$RELEASE")
		[[ -e /usr/src/$source.tar.xz ]] || install "$source" xz-utils || skip "no $source can be had from apt"
		(
			flock 9
			"$TREE/kmod/rapidio.sh" "$KDIR" "$rapidio" >"$TMP/rapidio.log" 2>&1
		) 9>"$rapidio.lock" || { cat "$TMP/rapidio.log"; exit 1; }
	fi
fi

rapidio_build() {
	kmod_build RAPIDIO="$rapidio"
}

rapidio_folder() {
	local folder=$TMP/$1
	shift
	mkdir "$folder"
	cp "$TMP"/kmod/{vmport,ffrio}.ko "$TREE/tests/vm/inside_rapidio.sh" "${@/#/$TMP/kmod/build/}" "$folder/"
	[[ -z $rapidio ]] || cp "$rapidio"/*.ko "$folder/"
	"${CROSS_COMPILE-}strip" --strip-debug "$folder"/*.ko
}
