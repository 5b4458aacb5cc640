#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rapidio.sh KDIR FOLDER - the kernel's own RapidIO as modules for the kernel whose headers are in KDIR:
# rapidio, rio-scan, rio_mport_cdev, rio_cm and rionet, unpatched, in FOLDER with Module.symvers.
# Debian's kernels have none, but the source package linux-source-VERSION has them. LINUX_SOURCE names
# its archive or a source tree elsewhere. The same files are built again only for another kernel.
set -eu -o pipefail

kdir=$1 folder=$2
release=$(cat "$kdir/include/config/kernel.release")
if grep -q '^CONFIG_RAPIDIO=' "$kdir/.config" "$kdir/include/config/auto.conf" 2>/dev/null; then
	echo "$release has RapidIO: build without RAPIDIO=" >&2
	exit 2
fi
[[ ! -e $folder/release || $(<"$folder/release") != "$release" ]] || exit 0

version=$(cut -d. -f1,2 <<<"$release")
source=${LINUX_SOURCE:-/usr/src/linux-source-$version.tar.xz}
[[ -e $source ]] || {
	echo "no source of $version: apt-get install linux-source-$version, or LINUX_SOURCE=" >&2
	exit 3
}
rm -rf "$folder"
mkdir -p "$folder"
folder=$(readlink -f "$folder")
parts=(drivers/rapidio drivers/net/rionet.c)
if [[ -d $source ]]; then
	(cd "$source" && cp -r --parents "${parts[@]}" "$folder/")
else
	tar -C "$folder" --strip-components=1 --wildcards -xf "$source" "${parts[@]/#/*/}"
fi
cat >"$folder/Kbuild" <<-'END'
	obj-m := drivers/rapidio/ drivers/net/
END
echo 'obj-m := rionet.o' >"$folder/drivers/net/Kbuild"
make -s -C "$kdir" M="$folder" CONFIG_RAPIDIO=m CONFIG_RAPIDIO_ENUM_BASIC=m CONFIG_RAPIDIO_CHMAN=m \
	CONFIG_RAPIDIO_MPORT_CDEV=m CONFIG_RAPIDIO_DMA_ENGINE=y \
	KCFLAGS="-DCONFIG_RAPIDIO_DISC_TIMEOUT=30 -DCONFIG_RAPIDIO_DMA_ENGINE=1 -DCONFIG_RAPIDIO_MODULE=1 \
-DCONFIG_RIONET_TX_SIZE=128 -DCONFIG_RIONET_RX_SIZE=128" modules
find "$folder/drivers" -name '*.ko' -exec mv -t "$folder" {} +
echo "$release" >"$folder/release"
