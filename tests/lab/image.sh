# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# image.sh - root file systems of Debian releases with the unmodified programs in them, as tar files
# kept in $FF_CACHE. Sourced by lab. The package source is the machine's own, with another suite.
# An image is named debian12, or debian12+PACKAGE+PACKAGE with more packages than the usual ones.

FF_CACHE=${FF_CACHE:-/var/cache/freeflow-lab}

image_suite() {
	case ${1%%+*} in
	debian11) echo bullseye ;;
	debian12) echo bookworm ;;
	debian13) echo trixie ;;
	*) die "no image '$1' (debian11, debian12, debian13)" ;;
	esac
}

# The address that this machine gets Debian from.
image_source() {
	apt-get indextargets --format "\$(CREATED_BY) \$(LABEL) \$(REPO_URI)" |
		sed -n 's/^Packages Debian \(.*\)/\1/p' | head -n 1
}

# Extracted, not installed: what maintainer scripts would make, and without what no test reads;
# rdma-core's own test suite is in its doc folder.
image_finish() {
	(
		cd "$1" || exit
		rm -rf usr/share/{man,locale,i18n,perl*,info} usr/lib/*/{perl*,gconv,libperl*} \
			usr/bin/perl* usr/lib/*/dri var/cache/apt var/lib/apt dev/*
		find usr/share/doc -mindepth 1 -maxdepth 1 ! -name rdma-core -exec rm -rf {} +
		[[ -e bin/sh ]] || ln -s dash bin/sh
		printf '%s\n' root:x:0:0:root:/root:/bin/bash user:x:1000:1000::/tmp:/bin/sh >etc/passwd
		printf '%s\n' root:x:0: user:x:1000: >etc/group
		mkdir -p tmp root
		chmod 1777 tmp
	)
}

# Prints the path of the image's tar file, made if it is not there.
image_tar() {
	local suite tar uri packages root
	suite=$(image_suite "$1")
	packages=base-files,base-passwd,bash,dash,coreutils,libc-bin,grep,sed,procps,hostname,iproute2
	packages+=,ibverbs-utils,perftest,rdmacm-utils,ucx-utils,iperf3,sockperf
	[[ $1 != *+* ]] || packages+=,$(cut -d + -f 2- --output-delimiter=, <<<"$1")
	tar=$FF_CACHE/${1%%+*}-$(cksum <<<"$packages" | cut -d ' ' -f 1).tar

	if [[ ! -e $tar ]]; then
		mkdir -p "$FF_CACHE"
		(
			flock 9
			[[ ! -e $tar ]] || exit 0
			uri=$(image_source)
			[[ -n $uri ]] || die "apt knows no Debian archive to make $1 from"
			say "making image $1 (once, kept in $FF_CACHE)"
			root=$(mktemp -d "$FF_CACHE/root.XXXXXX")
			trap 'rm -rf "$root"' EXIT
			mmdebstrap --quiet --mode=root --format=directory --variant=extract \
				--include="$packages" "$suite" "$root" "deb $uri $suite main" >&2
			image_finish "$root"
			tar -C "$root" -cf "$tar.new" .
			mv "$tar.new" "$tar"
		) 9>"$FF_CACHE/lock" || die "cannot make image $1"
	fi
	echo "$tar"
}
