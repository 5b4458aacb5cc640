#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# night: packages
# timeout: 7200
# release.sh - `make release`: what it refuses; two releases of this commit have the same checksums and valid signatures; the
# repository installs in fresh Debian 12 and 13 systems with `apt-get install freeflow-router`, and is refused when it was
# changed; the images run; and the bill of materials has what is in them.
# shellcheck disable=SC2016 # words for the root's shell
set -u -o pipefail
. "$(dirname "$0")/common.sh"
. "$TREE/tests/rig/shell/root.sh"
cd "$TREE" || exit 1

((EUID == 0)) || skip "needs root"
for command in dpkg-buildpackage apt-ftparchive mmdebstrap umoci gpg; do
	command -v $command >/dev/null || skip "no $command (make deps)"
done
[[ -n $(debian_uri) ]] || skip "no source of Debian's packages here"
[[ -e .git ]] || skip "a release is made of a commit, and here is no git repository"
trap '[[ -z ${ROOT_JOB-} ]] || root_down; gpgconf --kill gpg-agent 2>/dev/null; rm -rf --one-file-system "$TMP"' EXIT

KEY=release@freeflow.invalid
export GNUPGHOME=$TMP/gpg
mkdir -m 700 "$GNUPGHOME"
gpg --batch --quiet --passphrase '' --quick-gen-key "$KEY" ed25519 sign never 2>"$TMP/log" || fail "gpg: $(<"$TMP/log")"
version=$(sed -n 's/^#define FF_VERSION "\(.*\)"/\1/p' ffr/lib/version.h)
# A compiler's cache is of use for the first release. The second one compiles everything, because objects out of the cache
# would not show that they depend on the folder. debhelper builds with another HOME.
export PATH=/usr/lib/ccache:$PATH CCACHE_NOHASHDIR=1 CCACHE_DIR=${CCACHE_DIR:-$HOME/.cache/ccache}

step "what is refused"
refused() { # WHY ARGUMENT...
	! deploy/release "${@:2}" 2>"$TMP/log" || fail "taken: ${*:2}"
	grep -q "$1" "$TMP/log" || fail "${*:2}: $(<"$TMP/log")"
}
refused "who signs" -o "$TMP/no"
refused "no secret key nobody@freeflow.invalid" -o "$TMP/no" -k nobody@freeflow.invalid
refused "where to" -u
refused "is not empty" -o "$GNUPGHOME" -u

step "two releases"
deploy/release -o "$TMP/one" -k "$KEY" >"$TMP/log" 2>&1 || fail "$(tail -n 40 "$TMP/log")"
mkdir "$TMP/elsewhere"
CCACHE_DISABLE=1 TMPDIR=$TMP/elsewhere deploy/release -o "$TMP/two" -k "$KEY" >"$TMP/log" 2>&1 || fail "$(tail -n 40 "$TMP/log")"
diff "$TMP/one/SHA256SUMS" "$TMP/two/SHA256SUMS" || fail "the second release has other files"
(cd "$TMP/one" && sha256sum --quiet -c SHA256SUMS) || fail "the checksums are wrong"
(cd "$TMP/one" && find . -type f ! -name 'SHA256SUMS*' ! -name InRelease ! -name Release.gpg -printf '%P\n' | sort) >"$TMP/files"
diff "$TMP/files" <(sed 's/^[0-9a-f]*  //' "$TMP/one/SHA256SUMS" | sort) || fail "files without a checksum"
rm -rf "$TMP/two" "$TMP/elsewhere"

step "signatures"
verify() { # FILE...
	gpg --batch --quiet --verify "$@" 2>"$TMP/log" || fail "$*: $(<"$TMP/log")"
}
verify "$TMP/one/SHA256SUMS.asc" "$TMP/one/SHA256SUMS"
verify "$TMP/one/apt/dists/stable/Release.gpg" "$TMP/one/apt/dists/stable/Release"
verify "$TMP/one/apt/dists/stable/InRelease"

step "source"
tar -C "$TMP" -xf "$TMP/one/freeflow-$version.tar.xz" || fail "the tarball"
diff <(cd "$TMP/freeflow-$version" && find . -type f -o -type l | sed 's|^\./||' | sort) <(git ls-tree -r --name-only HEAD | sort) ||
	fail "the tarball has other files than the commit"

# The image's root file system, with its configuration in $TMP/config.
unpack() { # PACKAGE
	mkdir "$TMP/$1-layout"
	tar -C "$TMP/$1-layout" -xf "$TMP/one/$1-$version-oci-$(dpkg --print-architecture).tar" || fail "$1: no tar file"
	umoci --log=error unpack --image "$TMP/$1-layout:$version" "$TMP/$1" || fail "$1: no OCI image"
}

in_image() { # PACKAGE COMMAND...
	chroot "$TMP/$1/rootfs" "${@:2}"
}

step "images"
for package in freeflow-router freeflow-orchestrator; do
	unpack $package
	[[ ! -e $TMP/$package/rootfs/etc/apt/sources.list && ! -e $TMP/$package/rootfs/etc/apt/apt.conf.d/99mmdebstrap ]] ||
		fail "$package has the settings of its making"
	python3 - "$TMP/one/freeflow-$version.spdx.json" $package <(in_image $package dpkg-query -W -f '${Package} ${Version}\n') <<'PYTHON' ||
import json, sys

document = json.load(open(sys.argv[1]))
packages = {p["SPDXID"]: p for p in document["packages"]}
image = f"SPDXRef-Image-{sys.argv[2]}"
have = {(p["name"], p["versionInfo"]) for r in document["relationships"]
        if r["spdxElementId"] == image and r["relationshipType"] == "CONTAINS" for p in [packages[r["relatedSpdxElement"]]]}
want = {tuple(line.split()) for line in open(sys.argv[3])}
print(f"{sys.argv[2]}: {len(want)} packages")
sys.exit(have != want and f"they differ: {have ^ want}" or not want)
PYTHON
		fail "the bill of materials of $package"
done
[[ $(in_image freeflow-router ffr --version) == "ffr $version" ]] || fail "the router's image"
[[ $(in_image freeflow-orchestrator ffo --version) == *"$version" ]] || fail "the orchestrator's image"
grep -q '"args":[[:space:]]*\[[[:space:]]*"/usr/sbin/router-start"' <(tr -d '\n' <"$TMP/freeflow-router/config.json") || fail "its entry point"
rm -rf "$TMP/freeflow-router/rootfs/usr/lib/freeflow"/*
in_image freeflow-router router-start --version >"$TMP/log" 2>&1 || fail "router-start: $(<"$TMP/log")"
[[ -s $TMP/freeflow-router/rootfs/usr/lib/freeflow/libibverbs.so.1 ]] || fail "router-start leaves no library"

install_in() { # SUITE
	local root=$TMP/$1
	root_make "$root" "$1" || return 1
	cp -r "$TMP/one/apt" "$root/apt"
	root_boot "$root" || return 1
	step "$1: apt-get install freeflow-router"
	root_run sh -c 'rm -rf /etc/apt/sources.list*
		cp /apt/freeflow-archive-keyring.gpg /usr/share/keyrings/
		mkdir -p /etc/apt/sources.list.d
		echo "deb [signed-by=/usr/share/keyrings/freeflow-archive-keyring.gpg] file:/apt stable main" \
			>/etc/apt/sources.list.d/freeflow.list'
	{ root_run apt-get update >"$TMP/log" 2>&1 && ! grep -E '^(W|E):' "$TMP/log"; } || fail "apt-get update: $(<"$TMP/log")"
	root_run apt-get install -y freeflow-router >"$TMP/log" 2>&1 || fail "apt-get install: $(tail -n 20 "$TMP/log")"
	wait_for 60 root_run timeout 5 ffctl ping >"$TMP/log" 2>&1 || fail "no answer: $(<"$TMP/log")"
	[[ $(root_run ffr --version) == "ffr $version" ]] || fail "it is another version"
	root_run ffctl container add web >/dev/null || fail "container add"

	step "$1: a repository that somebody has changed"
	root_run sh -c 'f=/apt/dists/stable/InRelease; sed -i "s/^Version: .*/Version: 9/" $f; rm -f /var/lib/apt/lists/*stable*'
	root_run apt-get update >"$TMP/log" 2>&1
	grep -qE 'is not signed|invalid|BADSIG|OpenPGP' "$TMP/log" || fail "apt-get update says nothing: $(<"$TMP/log")"
	root_down
	ROOT_JOB=
}

done=0
for suite in bookworm trixie; do
	install_in $suite && ((++done))
done
((done)) || skip "no fresh system can be made, or started, here"
exit 0
