# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# pyverbs.sh - Debian's python3-pyverbs with rdma-core's test suite, unpacked beside the lab's images
# and not installed: the package depends on rdma-core, which brings udev and services along.
# Sourced; its programs want Debian's /usr/bin/python3.

# Prints the folder that is the package's root, unpacked if it is not there.
pyverbs_root() {
	local cache=${FF_CACHE:-/var/cache/freeflow-lab} version root
	version=$(apt-cache policy python3-pyverbs 2>/dev/null |
		sed -n 's/^ *Candidate: \([0-9].*\)/\1/p')
	[[ -n $version ]] || return 1
	root=$cache/pyverbs-$version
	mkdir -p "$cache" || return 1
	(
		flock 9
		[[ ! -e $root ]] || exit 0
		new=$(mktemp -d "$cache/pyverbs.XXXXXX")
		trap 'rm -rf "$new"' EXIT
		cd "$new" && apt-get download -q python3-pyverbs && dpkg -x ./*.deb root &&
			mv root "$root"
	) 9>"$cache/lock" >&2 || return 1
	echo "$root"
}

# PYTHONPATH, and the suite's folder, of that root.
pyverbs_packages() { # ROOT
	echo "$1/usr/lib/python3/dist-packages"
}

pyverbs_suite() { # ROOT
	echo "$1/usr/share/doc/rdma-core/tests"
}
