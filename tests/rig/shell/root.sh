# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# root.sh - fresh installed Debian systems, as folders in which one can install packages and run systemd. Sourced by
# tests of packages. A release's system is made once, by debootstrap's successor, and kept in $FF_CACHE as a tar file.

. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

# What our packages depend on is in it, so that dpkg alone can install them.
ROOT_PACKAGES=systemd,init-system-helpers,libbsd0,libcap-ng0,libconfuse2,libjansson4,libmicrohttpd12,libncurses6
ROOT_PACKAGES+=,libnghttp2-14,libprotobuf-c1,libseccomp2,libsqlite3-0,libssl3,libuv1,libzookeeper-st2,bash-completion

root_tar() { # SUITE: prints the tar file's path; fails where there is no such release to be had
	local tar uri dir
	tar=$FF_CACHE/root-$1-$(cksum <<<"$ROOT_PACKAGES" | cut -d ' ' -f 1).tar
	if [[ ! -e $tar ]]; then
		mkdir -p "$FF_CACHE"
		(
			flock 9
			[[ ! -e $tar ]] || exit 0
			uri=$(debian_uri)
			[[ -n $uri ]] || exit 1
			dir=$(mktemp -d "$FF_CACHE/root.XXXXXX")
			trap 'rm -rf "$dir"' EXIT
			mmdebstrap --quiet --mode=root --format=directory --variant=minbase \
				--include="$ROOT_PACKAGES" "$1" "$dir" "deb $uri $1 main" >&2 || exit 1
			rm -rf "$dir"/var/cache/apt/* "$dir"/var/lib/apt/lists/* "$dir"/usr/share/{locale,man,doc}/*
			tar -C "$dir" --one-file-system -cf "$tar.new" . && mv "$tar.new" "$tar"
		) 9>"$FF_CACHE/lock-root" || return 1
	fi
	echo "$tar"
}

# A fresh system of that release in the folder ROOT, which is made. Fails, and says so, where there is no such release.
root_make() { # ROOT SUITE
	local tar
	tar=$(root_tar "$2") || {
		echo "   no $2 here"
		return 1
	}
	mkdir "$1" && tar -C "$1" -xf "$tar" && : >"$1/etc/machine-id"
}

# The hierarchies of cgroups of version 1 that a root has beside systemd's own. Docker needs more than systemd.
ROOT_CONTROLLERS=

root_hierarchies() {
	local h
	for h in systemd unified memory pids $ROOT_CONTROLLERS .; do
		[[ ! -e /sys/fs/cgroup/$h/cgroup.procs ]] || echo "/sys/fs/cgroup/$h"
	done
}

# Boots the root's systemd in namespaces and cgroups of its own: ROOT_PID and ROOT_GROUP. Fails, and says why, where it does
# not start.
root_boot() { # ROOT
	local h
	ROOT_GROUP=freeflow-root.$$
	(
		for h in $(root_hierarchies); do
			mkdir -p "$h/$ROOT_GROUP"
			echo "$BASHPID" >"$h/$ROOT_GROUP/cgroup.procs"
		done
		# shellcheck disable=SC2016
		exec unshare --mount --pid --fork --kill-child --net --uts --ipc --cgroup --propagation private /bin/bash -ec '
			mount --bind "$1" "$1"
			cd "$1"
			mount -t proc proc proc
			mount -t sysfs -o ro sysfs sys
			mount -t tmpfs tmpfs run
			mount -t tmpfs tmpfs tmp
			mount --rbind /dev dev
			if [[ -e /sys/fs/cgroup/cgroup.procs ]]; then
				mount -t cgroup2 cgroup2 sys/fs/cgroup
			else
				mount -t tmpfs tmpfs sys/fs/cgroup
				mkdir sys/fs/cgroup/{unified,systemd}
				mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
				mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
				for h in $2; do
					mkdir sys/fs/cgroup/$h
					mount -t cgroup -o $h cgroup sys/fs/cgroup/$h
				done
			fi
			mkdir -p run/old
			pivot_root . run/old
			umount -l /run/old
			exec /usr/bin/env -i container=freeflow-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
				/lib/systemd/systemd --unit=multi-user.target' - "$1" "$ROOT_CONTROLLERS"
	) </dev/null >"$1.log" 2>&1 &
	ROOT_JOB=$!
	for ((h = 0; h < 100; h++)); do
		ROOT_PID=$(pgrep -P "$ROOT_JOB" 2>/dev/null)
		[[ -z $ROOT_PID ]] || case $(root_run systemctl is-system-running 2>/dev/null) in
		running | degraded) return 0 ;;
		esac
		kill -0 "$ROOT_JOB" 2>/dev/null || break
		sleep 0.2
	done
	echo "   systemd does not start here: $(tail -n 2 "$1.log")"
	return 1
}

root_run() { # CMD...
	nsenter -t "$ROOT_PID" --mount --pid --net --uts --ipc --cgroup --root --wd /usr/bin/env -i \
		PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive SYSTEMD_PAGER= "$@"
}

# With its first process all go.
root_down() {
	local h
	[[ -z ${ROOT_PID-} ]] || kill -KILL "$ROOT_PID" 2>/dev/null
	wait "${ROOT_JOB-}" 2>/dev/null
	for h in $(root_hierarchies); do
		[[ ! -d $h/${ROOT_GROUP:?} ]] || find "$h/$ROOT_GROUP" -depth -type d -exec rmdir {} \; 2>/dev/null
	done
}
