# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# pyverbs.sh - Debian's python3-pyverbs with rdma-core's test suite, unpacked beside the lab's images
# and not installed: the package depends on rdma-core, which brings udev and services along.
# Sourced; its programs want Debian's /usr/bin/python3.
. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

# Prints the folder that is the package's root, unpacked if it is not there.
pyverbs_root() {
	local version
	version=$(cache_version python3-pyverbs)
	[[ -n $version ]] && cache_once "pyverbs-$version" pyverbs_unpack
}

pyverbs_unpack() {
	apt-get download -q python3-pyverbs && dpkg -x ./*.deb made
}

# PYTHONPATH, and the suite's folder, of that root.
pyverbs_packages() { # ROOT
	echo "$1/usr/lib/python3/dist-packages"
}

pyverbs_suite() { # ROOT
	echo "$1/usr/share/doc/rdma-core/tests"
}
