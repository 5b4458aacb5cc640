#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: docker
# timeout: 600
# delivery.sh - how the libraries get into a container, by the runtime, by the flags of ffctl and by with-rdma: package managers
# work while it runs, programs find the libraries however they look for them, programs with AddressSanitizer start. By the runtime:
# what stays of it in an image made of the container, and in the container when it has stopped.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/lab/common.sh"
. "$TREE/tests/lab/image.sh"
trap 'end_ours; end_test' EXIT

end_ours() {
	local ids
	ids=$("${docker[@]}" ps -aq --filter label=freeflow.test=delivery)
	# shellcheck disable=SC2086
	[[ -z $ids ]] || "${docker[@]}" rm -f $ids >/dev/null
}

docker=(docker)
own_lab --containers 1
[[ -e $FF_LAB/h0/docker.private ]] || skip "the machine's own Docker has no runtime of ours"
docker+=(-H "unix://$FF_LAB/h0/docker.sock")
((!SANITIZED)) || skip "programs without a sanitizer do not load a library that has one"
grep -qs VERSION_CODENAME=bookworm /etc/os-release || skip "its packages are this machine's, and the image a Debian 12"

# A Debian 12 in which dpkg works, without libibverbs; its packages in $OUT/c, with programs of ours.
kept=$FF_CACHE/delivery-bookworm
if [[ ! -e $kept/root.tar ]]; then
	mkdir -p "$kept.new"
	cd "$kept.new" || fail "$kept.new"
	apt-get download libibverbs1 librdmacm1 ibverbs-utils libnl-3-200 libnl-route-3-200 ibverbs-providers libibverbs-dev \
		libibumad3 >"$OUT/apt" 2>&1 || skip "no packages: $(tail -n 1 "$OUT/apt")"
	mmdebstrap --quiet --variant=minbase bookworm root.tar "deb $(image_source) bookworm main" >"$OUT/apt" 2>&1 ||
		skip "no image can be made here: $(tail -n 1 "$OUT/apt")"
	cd "$OUT" || fail "$OUT"
	mv "$kept.new" "$kept" || fail "$kept"
fi
mkdir "$OUT/c" "$OUT/image"
cp "$kept"/*.deb "$OUT/c"
cat >"$OUT/image/Dockerfile" <<'F'
FROM ff-delivery:plain
COPY *.deb /d/
RUN dpkg -i $(ls /d/*.deb | grep -v -e -dev_) && dpkg -i --force-depends /d/libibverbs-dev*.deb
F
cp "$kept"/*.deb "$OUT/image"
"${docker[@]}" import "$kept/root.tar" ff-delivery:plain >/dev/null || fail "import"
"${docker[@]}" build -q -t ff-delivery:verbs "$OUT/image" >"$OUT/build" 2>&1 || fail "$(tail -n 3 "$OUT/build")"

gcc -x c -o "$OUT/c/find" - -ldl <<'C' || fail "find does not compile"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Which file each name leads to; "-" waits, and makes a folder to say so. */
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-') {
			mkdir("/tmp/waits", 0700);
			return pause();
		}
		void *lib = argv[i][0] == '+' ? dlmopen(LM_ID_NEWLM, argv[i] + 1, RTLD_NOW) : dlopen(argv[i], RTLD_NOW);
		void *f = lib ? dlsym(lib, "ibv_get_device_list") : NULL;
		Dl_info info;

		printf("%s: %s\n", argv[i], f && dladdr(f, &info) ? info.dli_fname : dlerror());
	}
	return 0;
}
C
echo 'int puts(const char *); int main(void) { return puts("starts") < 0; }' |
	gcc -fsanitize=address -x c -o "$OUT/c/asan" - || skip "no AddressSanitizer"
sanitizer=$(ldd "$OUT/c/asan" | awk '$3 ~ /lib(asan|stdc|gcc_s|ubsan)/ { print $3 }')
for f in $sanitizer; do
	mkdir -p "$OUT/c/san" && cp -L "$f" "$OUT/c/san/"
done

run=("${docker[@]}" run --label freeflow.test=delivery -v "$OUT/c:/c:ro")
runtime() { # WORDS...
	"${run[@]}" --rm --runtime freeflow --hostname web "$@" 2>&1
}
flags() {
	# shellcheck disable=SC2046
	"${run[@]}" --rm $(router_ctl container show byhand --docker) "$@" 2>&1
}
router_ctl container add byhand >/dev/null || fail "container add"

names="libibverbs.so.1 libibverbs.so +libibverbs.so.1"
for way in runtime flags; do
	step "$way: packages are installed while it runs"
	# shellcheck disable=SC2016
	out=$($way ff-delivery:plain sh -ec 'dpkg -i $(ls /c/*.deb | grep -v -e -dev_); ibv_devices') || fail "$out"
	[[ $out == *" ff0 "* ]] || fail "$out"

	step "$way: packages of the image are replaced, and ldconfig runs"
	out=$($way ff-delivery:verbs sh -ec 'dpkg -i /c/libibverbs1_*.deb /c/librdmacm1_*.deb; ldconfig; ibv_devices') || fail "$out"
	[[ $out == *" ff0 "* && $out != *ldconfig:* ]] || fail "$out"

	for image in plain verbs; do
		step "$way: what names lead to, image $image"
		# shellcheck disable=SC2086
		out=$($way ff-delivery:$image /c/find $names)
		(($(grep -c ': /usr/lib/freeflow/libibverbs.so' <<<"$out") == 3)) || fail "$out"
	done

	step "$way: the device's classes at their fixed place, beside the others"
	# shellcheck disable=SC2016
	out=$($way ff-delivery:plain sh -c 'for class in /sys/class/*; do [ -d "$class/" ] && echo "${class##*/}"; done
		cat /sys/class/infiniband/ff0/ports/1/gid_attrs/types/0 /sys/class/infiniband_verbs/uverbs_ff0/ibdev
		echo $(ls /sys/class/net); readlink -f /sys/class/infiniband/ff0/device') || fail "$out"
	[[ $out == "$(cd /sys/class && printf '%s\n' * infiniband infiniband_verbs | sort -u)
RoCE v2
ff0
eth0 lo
/sys/class/infiniband/.ff0/ff00:00:00.0" ]] || fail "$out"

	step "$way: a program with AddressSanitizer"
	# shellcheck disable=SC2016
	out=$($way ff-delivery:verbs sh -c 'LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/c/san /c/asan')
	[[ $out == starts ]] || fail "$out"
done

step "runtime: programs that ignore the environment"
# shellcheck disable=SC2016
out=$(runtime ff-delivery:verbs sh -ec 'cp /c/find /tmp/; chown 1000 /tmp/find; chmod 4755 /tmp/find; env -i /tmp/find libibverbs.so.1')
[[ $out == *" /usr/lib/freeflow/libibverbs.so.1" ]] || fail "$out"

step "runtime: no package's file is mounted over"
# shellcheck disable=SC2016
out=$(runtime ff-delivery:verbs sh -c 'while read -r _ _ _ _ at _; do dpkg -S "$at"; done 2>/dev/null </proc/self/mountinfo')
[[ $out != */lib* && $out != *ld.so* ]] || fail "$out"

step "runtime: a root that is read-only, and a /etc that is a volume"
out=$(runtime --read-only ff-delivery:verbs /c/find libibverbs.so.1)
[[ $out == *" /usr/lib/freeflow/libibverbs.so.1" ]] || fail "$out"
"${docker[@]}" run --label freeflow.test=delivery --name ff-etc ff-delivery:verbs true || fail "run"
"${docker[@]}" cp ff-etc:/etc "$OUT/etc" || fail "cp"
sum=$(cksum <"$OUT/etc/ld.so.cache")
out=$(runtime -v "$OUT/etc:/etc" ff-delivery:verbs /c/find libibverbs.so.1)
[[ $out == *" /usr/lib/freeflow/libibverbs.so.1" ]] || fail "$out"
[[ $(cksum <"$OUT/etc/ld.so.cache") == "$sum" && ! -e $OUT/etc/ld.so.conf.d/00-freeflow.conf ]] || fail "the volume was written to"
rm "$OUT/etc/ld.so.cache"
out=$(runtime -v "$OUT/etc:/etc" ff-delivery:verbs true) && fail "it starts without a cache that can be written"
[[ $out == *"/etc of the container is a volume"* ]] || fail "$out"

step "runtime: an image whose cache is none"
"${docker[@]}" run --label freeflow.test=delivery --name ff-bad ff-delivery:plain sh -c 'rm /etc/ld.so.cache; mkfifo /etc/ld.so.cache' ||
	fail "run"
"${docker[@]}" commit ff-bad ff-delivery:fifo >/dev/null || fail "commit"
out=$(runtime ff-delivery:fifo true) && fail "it starts"
[[ $out == *"its /etc/ld.so.cache is no regular file"* ]] || fail "$out"
! router_ctl container show web >/dev/null 2>&1 || fail "web is known"

step "runtime: an image made of a container that runs"
"${run[@]}" -d --runtime freeflow --hostname web --name ff-web ff-delivery:verbs sleep 1000 >/dev/null || fail "run"
"${docker[@]}" commit ff-web ff-delivery:made >/dev/null || fail "commit"
out=$("${run[@]}" --rm ff-delivery:made sh -c '/c/find libibverbs.so.1; ls -A /usr/lib/freeflow /run/freeflow; dpkg -V libibverbs1 libc-bin' 2>&1)
[[ $out == "libibverbs.so.1: /"*"-linux-gnu/libibverbs.so.1"* ]] || fail "$out"
[[ $out != *ffr.sock* && $out != *"freeflow/libibverbs"* ]] || fail "$out"
out=$(runtime --hostname again ff-delivery:made /c/find libibverbs.so.1)
[[ $out == *" /usr/lib/freeflow/libibverbs.so.1" ]] || fail "$out"

step "runtime: a container that has stopped, and starts again"
"${docker[@]}" stop -t 0 ff-web >/dev/null || fail "stop"
out=$("${docker[@]}" diff ff-web)
[[ $out != *freeflow* ]] || fail "$out"
! "${docker[@]}" cp ff-web:/etc/ld.so.cache - | grep -a >/dev/null freeflow || fail "the cache has us"
"${docker[@]}" start ff-web >/dev/null || fail "start"
"${docker[@]}" exec ff-web ibv_devices | grep >/dev/null ff0 || fail "no device after a start"

step "ffctl container check tells which library a process has"
checks() { # REGEX PROGRAM...: what is said of it
	local pid out
	"${docker[@]}" exec -d ff-web "${@:2}" - || fail "exec"
	wait_for 60 "${docker[@]}" exec ff-web test -e /tmp/waits || fail "$* does not wait"
	pid=$("${docker[@]}" top ff-web -C find -o pid | tail -n 1)
	out=$(router_ctl container check web --pid "$pid")
	kill -KILL "$pid"
	"${docker[@]}" exec ff-web rmdir /tmp/waits || fail "rmdir"
	grep -E >/dev/null "$1" <<<"$out" || fail "$out"
}
checks '^ok .*has loaded no libibverbs yet, and would find /usr/lib/freeflow' /c/find
images=/usr/lib/$(gcc -print-multiarch)
checks "^PROBLEM .*by its LD_LIBRARY_PATH it would load $images/libibverbs.so.1, which is not the router's" \
	env LD_LIBRARY_PATH="/c:relative:$images:/usr/lib/freeflow" /c/find
checks '^ok .*has loaded no libibverbs yet, and would find /usr/lib/freeflow/libibverbs.so.1 unless' \
	env LD_LIBRARY_PATH="/c:/usr/lib/freeflow:$images" /c/find
checks '^ok .*it has loaded /usr/lib/freeflow/libibverbs.so.1$' /c/find libibverbs.so
checks '^PROBLEM .*it has loaded /usr/lib/.*-gnu/libibverbs.so.1[.0-9]*, which is not the router' /c/find \
	"$images/libibverbs.so.1"
"${docker[@]}" exec ff-web sh -c 'rm /etc/ld.so.conf.d/00-freeflow.conf; ldconfig' || fail "ldconfig"
checks '^PROBLEM .*nor /etc/ld.so.cache names /usr/lib/freeflow' /c/find

step "with-rdma"
out=$(FREEFLOW=$BUILD "$TREE/deploy/ci/with-rdma" a -- as a "$OUT/c/find" libibverbs.so.1 libibverbs.so)
(($(grep -c ": $BUILD/lib/libibverbs.so" <<<"$out") == 2)) || fail "$out"
out=$(FREEFLOW=$BUILD "$TREE/deploy/ci/with-rdma" a -- as a "$OUT/c/asan" 2>&1)
[[ $out == starts ]] || fail "$out"
exit 0
