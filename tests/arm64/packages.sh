#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# packages.sh - the Debian packages for arm64, built by the cross compiler (`make deb CROSS=... SYSROOT=...`). Lintian finds no
# error. All programs are for arm64. The packages depend on the libraries that their programs are linked with. In a system
# that has only our packages and what they depend on, the programs answer, run by QEMU's user emulation.
#
# timeout: 900
set -u -o pipefail
. "$(dirname "$0")/../packages/common.sh"
. "$TREE/tests/rig/shell/vm.sh"
. "$TREE/tests/rig/shell/arm64.sh"
trap 'rm -rf "$TMP"' EXIT

for tool in dh dh_dkms lintian mmdebstrap aarch64-linux-gnu-gcc qemu-aarch64-static; do
	command -v $tool >/dev/null || skip "no $tool"
done
sysroot=$(arm64_sysroot) || skip "no Debian for arm64 here"
! command -v ccache >/dev/null || export CC="ccache aarch64-linux-gnu-gcc" CCACHE_NOHASHDIR=1
DEBS=$TMP/debs

step "build"
"$TREE/deploy/deb" -o "$DEBS" -c aarch64-linux-gnu- -s "$sysroot" >"$TMP/log" || fail "$(cat "$TMP/log")"

step "lintian"
lintian --fail-on error --allow-root "$DEBS"/*.deb >"$TMP/lintian" 2>&1 || fail "$(cat "$TMP/lintian")"
cat "$TMP/lintian"

# Prints the names of the packages that a package depends on, sorted.
depends() { # PACKAGE
	dpkg-deb -f "$DEBS/$1"_*.deb Depends | tr ',' '\n' | sed 's/^ *//; s/ .*//' | sort
}

# Prints the names of the packages whose libraries the programs of a package are linked with, sorted.
linked() { # PACKAGE
	find "$TMP/$1" -type f -exec sh -c 'aarch64-linux-gnu-readelf -d "$1" 2>/dev/null' sh {} \; |
		sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u | while read -r soname; do
		grep -lE "^$soname |^$(sed -E 's/^(.*)\.so\.(.*)$/\1 \2/' <<<"$soname") " "$sysroot"/var/lib/dpkg/info/*.s*
	done | sed 's|.*/||; s/:arm64\..*//' | sort -u
}

step "what is in them"
for package in freeflow-router freeflow-orchestrator libfreeflow-container; do
	[[ -e $(echo "$DEBS/$package"_*_arm64.deb) && $(dpkg-deb -f "$DEBS/$package"_*.deb Architecture) == arm64 ]] ||
		fail "no $package for arm64"
	dpkg-deb -x "$DEBS/$package"_*.deb "$TMP/$package"
	n=0
	while read -r f; do
		[[ $(head -c 4 "$f" | tail -c 3 | tr -d '\0') == ELF ]] || continue
		((++n))
		aarch64-linux-gnu-readelf -h "$f" | grep >/dev/null 'Machine: *AArch64$' || fail "$f is not for arm64"
		! aarch64-linux-gnu-readelf -S "$f" | grep >/dev/null -E '\.(debug_info|symtab)' || fail "$f is not stripped"
	done < <(find "$TMP/$package" -type f)
	((n)) || fail "no programs in $package"
	if [[ $package == libfreeflow-container ]]; then
		[[ $(depends $package) == libc6 ]] || fail "$package depends on $(depends $package)"
	else
		[[ $(depends $package | grep -vE '^(libfreeflow-container|systemd.*|adduser)$') == "$(linked $package)" ]] ||
			fail "$package depends on $(depends $package), linked with $(linked $package)"
	fi
	echo "$package: $n programs and libraries; $(dpkg-deb -f "$DEBS/$package"_*.deb Depends)"
done

# apt resolves the dependencies. No maintainer script runs.
step "in a system"
(cd "$DEBS" && dpkg-scanpackages -m . >Packages 2>/dev/null) || fail "dpkg-scanpackages"
arm64_unpack bookworm freeflow-router,freeflow-orchestrator,libfreeflow-container "$TMP/root" \
	--setup-hook="echo 'deb [trusted=yes] copy:$DEBS ./' >\"\$1\"/etc/apt/sources.list.d/ours.list" ||
	fail "the packages do not go into a system"
version=$(dpkg-deb -f "$DEBS"/freeflow-router_*.deb Version)
run() { # PROGRAM ARG...
	qemu-aarch64-static -L "$TMP/root" "$TMP/root$1" "${@:2}"
}
for program in /usr/sbin/ffr /usr/sbin/ffo /usr/bin/ffctl; do
	[[ $(run $program --version) == *"$version"* ]] || fail "$program --version: $(run $program --version 2>&1)"
done
run /usr/bin/ffctl --help | grep >/dev/null 'container add' || fail "ffctl --help: $(run /usr/bin/ffctl --help 2>&1)"
for library in libibverbs librdmacm; do
	run /lib/ld-linux-aarch64.so.1 --library-path "$TMP/root/usr/lib/freeflow" --list "$TMP/root/usr/lib/freeflow/$library.so.1" \
		>"$TMP/log" 2>&1 || fail "$(cat "$TMP/log")"
	! grep 'not found' "$TMP/log" || fail "$library"
done
exit 0
