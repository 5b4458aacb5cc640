# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# vm.sh - virtual machines for what needs a kernel with modules: Debian's kernel of this release,
# unpacked beside the lab's images and not installed. Sourced. In a VM this machine's own / is the
# root, below a tmpfs that takes what is written; /out is a folder that both see. By KVM where that
# works, emulated otherwise: times are for function, never for figures. arm64.sh has another machine.
#
#	kernel=$(vm_kernel) || skip "..."
#	vm_run "$kernel" "$TMP/vm" 60 SCRIPT [ARG...]
#
# A VM has a time limit, and nothing of it stays: the mounts that it needs are in a namespace of
# QEMU's own.
. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

# The machine, where its kernel's console is, and what its root is made of.
VM_MACHINE=(qemu-system-x86_64 -machine q35 -cpu max)
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
	local release version
	vm_tools qemu-system-x86 busybox-static >&2 || return 1
	release=$(apt-cache depends linux-headers-amd64 2>/dev/null |
		sed -n 's/^ *Depends: linux-headers-\(6.*\)/\1/p' | head -n 1)
	version=$(cache_version "linux-image-$release")
	[[ -n $release && -n $version ]] || return 1
	cache_once "kernel-$version" vm_unpack "$release" "$version"
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
	mkdir -p "$dir"/{bin,modules,root,new,out,kernel,rw,dev,proc}
	cp "$2" "$dir/bin/busybox"
	for m in virtio_pci 9pnet_virtio 9p overlay; do
		modprobe -d "$1" -S "$release" --show-depends "$m"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r ko; do
		cp "$ko" "$dir/modules/"
		[[ $ko != *.xz ]] || unxz "$dir/modules/${ko##*/}"
		basename "$ko" .xz
	done >"$dir/modules/list"
	cat >"$dir/init" <<-'END'
		#!/bin/busybox sh
		export PATH=/bin
		/bin/busybox --install -s /bin
		mount -t devtmpfs dev /dev
		while read -r m; do insmod /modules/$m; done </modules/list
		p9() { mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,$3 $1 $2; }
		p9 host /root ro,cache=loose
		mount -t tmpfs tmpfs /rw
		mkdir /rw/upper /rw/work
		mount -t overlay -o lowerdir=/root,upperdir=/rw/upper,workdir=/rw/work overlay /new
		mkdir -p /new/out /new/lib/modules
		p9 kernel /new/lib/modules ro,cache=loose
		p9 out /new/out rw
		for d in proc sys dev run tmp; do mkdir -p /new/$d; done
		mount -t proc proc /new/proc
		mount -t sysfs sys /new/sys
		mount --move /dev /new/dev
		mount -t tmpfs tmpfs /new/run
		mount -t tmpfs tmpfs /new/tmp
		exec switch_root /new /out/.vm-init
	END
	chmod +x "$dir/init"
	(cd "$dir" && find . | cpio -o -H newc --quiet | gzip -1) >"$1/initrd" || return 1
	rm -rf "$dir"
}

# vm_run KERNEL OUT SECONDS SCRIPT [ARG...]: SCRIPT, copied into the folder OUT, which is /out in the VM,
# as root there. Returns its exit status, 124 if it did not end in time; what it prints comes out, what
# the kernel says is in OUT/console. VM_ARGS: more arguments of QEMU, such as a NIC. What is exported and
# called FT_ is exported there, too.
VM_ARGS=()
vm_run() {
	local kernel=$1 out=$2 limit=$3 script=$4 status root accel=(-accel "tcg,thread=multi")
	shift 4
	mkdir -p "$out"
	rm -f "$out"/.vm-*
	cp "$script" "$out/.vm-script"
	cat >"$out/.vm-init" <<-END
		#!/bin/bash
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
	root=$(mktemp -d)
	# QEMU ends with the VM; a limit beyond the script's own is for a kernel that hangs.
	# shellcheck disable=SC2016
	timeout --foreground -k 5 $((limit + 60)) unshare -m --propagation private bash -c '
		mount --bind "$1" "$0" && exec "${@:2}"' "$root" "$VM_ROOT" \
		"${VM_MACHINE[@]}" "${accel[@]}" -smp 2 -m 2048 \
		-display none -nodefaults -no-reboot -serial "file:$out/console" \
		-fsdev "local,id=host,path=$root,readonly=on,security_model=none,multidevs=remap" \
		-device virtio-9p-pci,fsdev=host,mount_tag=host \
		-fsdev "local,id=kernel,path=$kernel/lib/modules,readonly=on,security_model=none" \
		-device virtio-9p-pci,fsdev=kernel,mount_tag=kernel \
		-fsdev "local,id=out,path=$out,security_model=none" \
		-device virtio-9p-pci,fsdev=out,mount_tag=out \
		"${VM_ARGS[@]}" -kernel "$kernel/vmlinuz" -initrd "$kernel/initrd" \
		-append "console=$VM_CONSOLE panic=-1 quiet loglevel=4 no_timer_check" </dev/null >"$out/.vm-qemu" 2>&1
	rmdir "$root"
	cat "$out/.vm-qemu" >>"$out/console"
	cat "$out/.vm-output" 2>/dev/null
	status=$(cat "$out/.vm-status" 2>/dev/null || echo 124)
	rm -f "$out"/.vm-*
	return "$status"
}
