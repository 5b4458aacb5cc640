#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: packages
# night: packages
# timeout: 1800
# build.sh - the Debian packages are built in two folders, one like the other byte for byte (one folder only in a run of
# all kinds, where FF_BRIEF is set: minutes); lintian has no error; the libraries are where the host's programs do not look,
# and every unit, page and completion is in one of them; and the kernel modules build of what their package has.
set -u -o pipefail
. "$(dirname "$0")/common.sh"
trap 'rm -rf "$TMP"' EXIT

for command in dh dh_dkms lintian; do
	command -v $command >/dev/null || skip "no $command (make deps)"
done
# The two builds are alike but for their folders, so that a compiler's cache is of use where there is one. debhelper builds with
# another HOME.
! command -v ccache >/dev/null || export CC="ccache gcc" CCACHE_NOHASHDIR=1 CCACHE_DIR="${CCACHE_DIR:-$HOME/.cache/ccache}"

# Those for debuggers take long, and nothing here looks into them.
[[ -z ${FF_BRIEF-} ]] || export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS-} noautodbgsym"

step "build"
"$TREE/deploy/deb" -o "$DEBS" >"$TMP/log" || fail "$(cat "$TMP/log")"
if [[ -z ${FF_BRIEF-} ]]; then
	step "once more, elsewhere"
	"$TREE/deploy/deb" -o "$TMP/another/folder" >"$TMP/log" || fail "$(cat "$TMP/log")"
	for deb in "$DEBS"/*.deb; do
		cmp "$deb" "$TMP/another/folder/${deb##*/}" || fail "${deb##*/} is another one"
	done
fi

step "lintian"
lintian --fail-on error --allow-root "$DEBS"/*.deb >"$TMP/lintian" 2>&1 || fail "$(cat "$TMP/lintian")"
cat "$TMP/lintian"

step "what is in them"
contents() { # PACKAGE
	dpkg-deb -c "$DEBS/$1"_*.deb | awk '$1 !~ /^d/ { print $6 }'
}
[[ $(contents libfreeflow-container | grep '\.so' | sort) == "./usr/lib/freeflow/libibverbs.so
./usr/lib/freeflow/libibverbs.so.1
./usr/lib/freeflow/librdmacm.so
./usr/lib/freeflow/librdmacm.so.1" ]] || fail "$(contents libfreeflow-container)"
[[ $(dpkg-deb -f "$DEBS"/libfreeflow-container_*.deb Depends) =~ ^libc6\ \(\>=\ [0-9.]+\)$ ]] ||
	fail "libfreeflow-container depends on $(dpkg-deb -f "$DEBS"/libfreeflow-container_*.deb Depends)"
{
	contents freeflow-router
	contents freeflow-orchestrator
	contents libfreeflow-container
} | sed 's|.*/||; s/\.gz$//' >"$TMP/files"
for f in "$TREE"/deploy/systemd/* "$TREE"/ff{l,r,o}/*.scd freeflow.h; do
	f=${f##*/}
	grep -qxF "${f%.scd}" "$TMP/files" || fail "${f%.scd} is in no package"
done

# Of what is in the package alone. Debian's kernels have no RapidIO, whose symbols are not needed for that.
step "the modules of freeflow-dkms"
if compgen -G '/lib/modules/*/build/Makefile' >/dev/null; then
	dpkg-deb -x "$DEBS"/freeflow-dkms_*.deb "$TMP/dkms"
	mkdir "$TMP/rapidio" && : >"$TMP/rapidio/Module.symvers"
	make -s -C "$TMP"/dkms/usr/src/freeflow-* RAPIDIO="$TMP/rapidio" KBUILD_MODPOST_WARN=1 modules >"$TMP/log" 2>&1 ||
		fail "$(cat "$TMP/log")"
	for module in ffmem ffrio vmport; do
		[[ -e $(echo "$TMP"/dkms/usr/src/freeflow-*/$module.ko) ]] || fail "no $module.ko"
	done
else
	echo "not built: no kernel headers here"
fi
exit 0
