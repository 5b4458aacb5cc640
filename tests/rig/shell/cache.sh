# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# cache.sh - what is made of Debian's packages once and kept beside the lab's images. Sourced.

FF_CACHE=${FF_CACHE:-/var/cache/freeflow-lab}

# Prints the version of the package that apt would take.
cache_version() { # PACKAGE
	apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9].*\)/\1/p'
}

# Prints the address that this machine gets Debian from.
debian_uri() {
	apt-get indextargets --format "\$(CREATED_BY) \$(LABEL) \$(REPO_URI)" | sed -n 's/^Packages Debian \(.*\)/\1/p' | head -n 1
}

# Prints the path of what has that name. Where it is not there the command makes it as `made`, in an empty
# folder.
cache_once() { # NAME COMMAND [ARG...]
	local path=$FF_CACHE/$1 new
	shift
	# what is there is whole: who wants it does not wait for who makes something else
	[[ ! -e $path ]] || { echo "$path"; return; }
	mkdir -p "$FF_CACHE" || return 1
	(
		flock 9
		[[ ! -e $path ]] || exit 0
		new=$(mktemp -d "$FF_CACHE/new.XXXXXX")
		trap 'rm -rf "$new"' EXIT
		cd "$new" && "$@" && mv made "$path"
	) 9>"$FF_CACHE/lock" >&2 || return 1
	echo "$path"
}
