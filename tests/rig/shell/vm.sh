# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# vm.sh - virtual machines for what needs a kernel with modules: Debian's kernel of this release,
# unpacked beside the lab's images and not installed. Sourced. In a VM this machine's own / is the
# root, below a tmpfs that takes what is written; /out is a folder that both see, but for what is
# written in /out/tree. By KVM where that works, emulated otherwise: times are for function, never for
# figures. arm64.sh has another machine.
#
#	kernel=$(vm_kernel) || skip "..."
#	vm_run "$kernel" "$TMP/vm" 60 SCRIPT [ARG...]
#
# A VM has a time limit, and nothing of it stays: the mounts that it needs are in a namespace of
# QEMU's own.
. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

# The machine, where its kernel's console is, and what its root is made of. Emulated, "rep movsb" and AVX are slower than what
# libraries and the kernel do without them; and code is translated again wherever else it lies, or takes detours.
VM_MACHINE=(qemu-system-x86_64 -machine q35 -cpu "max,erms=off,avx=off,avx2=off,fma=off,f16c=off")
VM_APPEND="norandmaps nokaslr mitigations=off"
VM_CONSOLE=ttyS0
VM_ROOT=/

# What else an initramfs is made with: installed with QEMU if it is not there.
vm_tools() { # PACKAGE...
	local need=() p
	for p in "$@" cpio kmod; do
		[[ $(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) == installed ]] ||
			need+=("$p")
	done
	((${#need[@]} == 0)) || DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
		--no-install-recommends "${need[@]}"
}

# Prints the folder of a kernel that linux-headers-amd64 has the headers of, with vmlinuz, release,
# initrd and lib/modules, made if it is not there.
vm_kernel() {
	local release version folder known=${RUN_WORK:+$RUN_WORK/vm-kernel}
	if [[ -n $known && -s $known ]]; then # apt takes two seconds to answer, and one run of tests/run asks it once
		cat "$known"
		return
	fi
	vm_tools qemu-system-x86 busybox-static >&2 || return 1
	release=$(apt-cache depends linux-headers-amd64 2>/dev/null |
		sed -n 's/^ *Depends: linux-headers-\(6.*\)/\1/p' | head -n 1)
	version=$(cache_version "linux-image-$release")
	[[ -n $release && -n $version ]] || return 1
	folder=$(cache_once "kernel-$version" vm_unpack "$release" "$version") || return 1
	[[ -z $known ]] || echo "$folder" >"$known"
	echo "$folder"
}

vm_unpack() { # RELEASE VERSION
	apt-get download -q "linux-image-$1" && dpkg -x ./*.deb root &&
		mkdir made && mv "root/boot/vmlinuz-$1" made/vmlinuz &&
		mv root/lib made/lib && depmod -b made "$1" &&
		echo "$1" >made/release && echo "$2" >made/version && vm_initrd made /bin/busybox
}

# busybox and the modules that it mounts the root with.
vm_initrd() { # KERNEL-FOLDER BUSYBOX
	local dir ko release m
	dir=$(mktemp -d "$1/initrd.XXXXXX")
	read -r release <"$1/release"
	mkdir -p "$dir"/{bin,modules}
	cp "$2" "$dir/bin/busybox"
	for m in virtio_pci 9pnet_virtio 9p overlay; do
		modprobe -d "$1" -S "$release" --show-depends "$m"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r ko; do
		cp "$ko" "$dir/modules/"
		[[ $ko != *.xz ]] || unxz "$dir/modules/${ko##*/}"
		basename "$ko" .xz
	done >"$dir/modules/list"
	(cd "$dir" && find . | cpio -o -H newc --quiet | gzip -1) >"$1/initrd" || return 1
	rm -rf "$dir"
}

# The whole of the initramfs, to standard output: the kernel's part and a run's.
vm_initramfs() { # KERNEL-FOLDER OUT
	local dir status=0
	dir=$(mktemp -d)
	mkdir -p "$dir"/{root,rw,tree,new,dev,fast,fast-tree}
	vm_init >"$dir/init"
	chmod +x "$dir/init"
	vm_fast "$dir/fast"
	[[ ! -d $2/tree/build ]] ||
		(cd "$2/tree" && cp -r --parents build/{bin,lib} tests deploy "$dir/fast-tree/" && cp -r --parents build/tests/lab "$dir/fast-tree/")
	{
		cat "$1/initrd" && head -c $((512 - $(stat -c %s "$1/initrd") % 512)) /dev/zero &&
			cd "$dir" && find . | cpio -o -H newc --quiet
	} || status=1
	rm -rf "$dir"
	return $status
}

vm_init() {
	cat <<-'END'
		#!/bin/busybox sh
		export PATH=/bin
		/bin/busybox --install -s /bin
		mount -t devtmpfs dev /dev
		while read -r m; do insmod /modules/$m; done </modules/list
		p9() { mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,$3 $1 $2; }
		layers() { mount -t overlay -o lowerdir=$1:$2,upperdir=/rw/$3,workdir=/rw/$3.work overlay $4; }
		mount -t tmpfs tmpfs /rw
		mkdir /rw/root /rw/root.work /rw/tree /rw/tree.work
		p9 host /root ro,cache=loose
		layers /fast /root root /new
		mkdir -p /new/out /new/lib/modules
		p9 kernel /new/lib/modules ro,cache=loose
		p9 out /new/out rw
		[ ! -d /new/out/tree ] || { p9 tree /tree ro,cache=loose && layers /fast-tree /tree tree /new/out/tree; }
		for d in proc sys dev run tmp; do mkdir -p /new/$d; done
		mount -t proc proc /new/proc
		mount -t sysfs sys /new/sys
		mount --move /dev /new/dev
		mount -t tmpfs tmpfs /new/run
		mount -t tmpfs tmpfs /new/tmp
		# not switch_root, which empties the initramfs
		cd /new
		mount --move . /
		exec chroot . /out/.vm-init
	END
}

# What scripts run again and again, with its libraries, for a VM to have in memory: a program that is read by 9p takes a
# tenth of a second to start.
VM_FAST="awk basename bash cat chmod chown cksum cp cut date dirname env find getconf grep head hostname id ip kill ln ls
	mawk mkdir mktemp mount mv nproc nsenter paste pgrep pkill ps readlink realpath rm rmdir sed seq setpriv setsid sh sleep
	sort ss stat stdbuf sync tail tee test timeout touch tr true umount uname uniq unshare wc xargs"
vm_fast() { # FOLDER
	local new=() next name dir link
	for name in $VM_FAST; do
		for dir in usr/bin usr/sbin bin sbin; do
			[[ -e $VM_ROOT/$dir/$name ]] && new+=("$dir/$name") && break
		done
	done
	cd "$VM_ROOT" || return 1
	for name in {usr/,}lib{64,}/ld-linux*.so.*; do
		[[ ! -e $name || -L ${name%%/*} ]] || new+=("$name")
	done
	while ((${#new[@]})); do
		cp -L --parents "${new[@]}" "$1/"
		next=()
		for name in $(readelf -dW "${new[@]}" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u); do
			for dir in {usr/,}lib/*-linux-gnu; do
				[[ ! -e $dir/$name ]] && continue
				[[ -e $1/$dir/$name ]] || next+=("$dir/$name")
				break
			done
		done
		new=("${next[@]}")
	done
	[[ ! -e etc/ld.so.cache ]] || cp --parents etc/ld.so.cache "$1/"
	for link in bin sbin lib lib64; do
		[[ ! -L $link ]] || cp -P "$link" "$1/"
	done
	cd - >/dev/null || return 1
}

# vm_run KERNEL OUT SECONDS SCRIPT [ARG...]: SCRIPT, copied into the folder OUT, which is /out in the VM,
# as root there. Returns its exit status, 124 if it did not end in time; what it prints comes out, what
# the kernel says is in OUT/console. VM_ARGS: more arguments of QEMU, such as a NIC. VM_CPUS: the number of its CPUs. What is
# exported and called FT_ is exported there, too. FT_IN_VM is set there, so that one file can hold both what starts the VM
# and what runs in it.
VM_ARGS=()
VM_CPUS=${VM_CPUS:-2}
vm_run() {
	local kernel=$1 out=$2 limit=$3 script=$4 status root tree=() accel=(-accel "tcg,thread=multi")
	shift 4
	mkdir -p "$out"
	rm -f "$out"/.vm-*
	cp "$script" "$out/.vm-script"
	cat >"$out/.vm-init" <<-END
		#!/bin/bash
		export FT_IN_VM=1
		$(export -p | grep '^declare -x FT_' || true)
		export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
		ln -s /proc/self/fd /dev/fd
		mkdir -p /dev/shm /dev/pts && mount -t tmpfs tmpfs /dev/shm && mount -t devpts devpts /dev/pts
		hostname vm
		ip link set lo up
		cd /out
		timeout -k 5 $limit bash ./.vm-script ${*@Q} >/out/.vm-output 2>&1 </dev/null
		echo \$? >/out/.vm-status
		sync
		echo o >/proc/sysrq-trigger
		while :; do :; done # no program: what it would be read from may be gone already
	END
	chmod +x "$out/.vm-init"
	# a machine that is a VM itself may have a /dev/kvm without the processor's help: VMs hang in it
	[[ ${VM_MACHINE[0]} != *x86_64 || ! -w /dev/kvm ]] || ! grep -qwE 'vmx|svm' /proc/cpuinfo || accel=(-accel kvm "${accel[@]}")
	[[ ! -d $out/tree ]] || tree=(-fsdev "local,id=tree,path=$out/tree,readonly=on,security_model=none"
		-device "virtio-9p-pci,fsdev=tree,mount_tag=tree")
	(vm_initramfs "$kernel" "$out") >"$out/.vm-initrd" || return 1
	root=$(mktemp -d)
	# loglevel=5 shows warnings (level 4) on the console. With 4, WARN() and lockdep's reports are hidden.
	# QEMU ends with the VM; a limit beyond the script's own is for a kernel that hangs.
	# shellcheck disable=SC2016
	timeout --foreground -k 5 $((limit + 60)) unshare -m --propagation private bash -c '
		mount --bind "$1" "$0" && exec "${@:2}"' "$root" "$VM_ROOT" \
		"${VM_MACHINE[@]}" "${accel[@]}" -smp "$VM_CPUS" -m 2048 \
		-display none -nodefaults -no-reboot -serial "file:$out/console" \
		-fsdev "local,id=host,path=$root,readonly=on,security_model=none,multidevs=remap" \
		-device virtio-9p-pci,fsdev=host,mount_tag=host \
		-fsdev "local,id=kernel,path=$kernel/lib/modules,readonly=on,security_model=none" \
		-device virtio-9p-pci,fsdev=kernel,mount_tag=kernel \
		-fsdev "local,id=out,path=$out,security_model=none" \
		-device virtio-9p-pci,fsdev=out,mount_tag=out \
		"${tree[@]}" "${VM_ARGS[@]}" -kernel "$kernel/vmlinuz" -initrd "$out/.vm-initrd" \
		-append "console=$VM_CONSOLE panic=-1 quiet loglevel=5 no_timer_check $VM_APPEND" </dev/null >"$out/.vm-qemu" 2>&1
	rmdir "$root"
	cat "$out/.vm-qemu" >>"$out/console"
	cat "$out/.vm-output" 2>/dev/null
	status=$(cat "$out/.vm-status" 2>/dev/null || echo 124)
	rm -f "$out"/.vm-*
	return "$status"
}
