/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rootfs.c - what is in an image: which C library its programs have, and a path of it.
 *
 * The image may be anybody's. A path in it is resolved by the kernel in the image's root (openat2,
 * RESOLVE_IN_ROOT), so a link leads nowhere else; a file is opened without reading until it is known to be a
 * regular one, and then a bounded part of it is read. No program of it is run.
 *
 * Our libraries for the host's own machine and glibc are in one folder; those for others (an image for arm64 on an x86
 * host, by QEMU, or one with musl), where they are installed, each in a folder of its name in there.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct rootfs_kind kinds[] = {
	{ "x86_64", "glibc", "lib64/ld-linux-x86-64.so.2", EM_X86_64, 0x0303, NULL },
	{ "aarch64", "glibc", "lib/ld-linux-aarch64.so.1", EM_AARCH64, 0x0a03, NULL },
	{ "x86_64-musl", "musl", "lib/ld-musl-x86_64.so.1", EM_X86_64, 0, "ld-musl-x86_64.path" },
	{ "aarch64-musl", "musl", "lib/ld-musl-aarch64.so.1", EM_AARCH64, 0,
	  "ld-musl-aarch64.path" },
};

#if defined(__x86_64__)
const struct rootfs_kind *const rootfs_own = &kinds[0];
#elif defined(__aarch64__)
const struct rootfs_kind *const rootfs_own = &kinds[1];
#else
#error "which loader has this machine?"
#endif

static int open_in(int root, const char *path, int flags, uint64_t resolve)
{
	const struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int rootfs_open(int root, const char *path, int flags)
{
	return open_in(root, path, flags, 0);
}

int rootfs_own_folder(int root, const char *path)
{
	return open_in(root, path, O_PATH | O_DIRECTORY, RESOLVE_NO_XDEV);
}

/*
 * Make a folder (mode S_IFDIR) or an empty file of that name. Its owner is the parent folder's, which with user
 * namespaces is the container's root: a file system that was mounted in such a namespace takes only files of its own
 * users (EOVERFLOW). 0 or -errno.
 */
static int make(int parent, const char *name, mode_t mode)
{
	struct stat st;
	int err = 0;

	if (fstat(parent, &st))
		return -errno;
	for (int as_owner = 0; as_owner < 2; as_owner++) {
		if (as_owner) {
			setfsgid(st.st_gid);
			setfsuid(st.st_uid);
		}
		err = S_ISDIR(mode) ? mkdirat(parent, name, mode & 0777) :
				      mknodat(parent, name, mode, 0);
		err = err ? -errno : 0;
		if (err != -EOVERFLOW)
			break;
	}
	setfsuid(0);
	setfsgid(0);
	if (!err && st.st_uid)
		(void)!fchownat(parent, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW);
	return err;
}

int rootfs_folder(int root, const char *path)
{
	char part[256];
	int parent, err, fd = rootfs_open(root, path, O_PATH | O_DIRECTORY);
	const char *slash = strrchr(path, '/');

	if (fd != -ENOENT || strlen(path) >= sizeof(part))
		return fd;
	snprintf(part, sizeof(part), "%.*s", slash ? (int)(slash - path) : 0, path);
	parent = slash ? rootfs_folder(root, part) : dup(root);
	if (parent < 0)
		return parent;
	err = make(parent, slash ? slash + 1 : path, S_IFDIR | 0755);
	if (err && err != -EEXIST)
		fd = err;
	close(parent);
	/* a link to nowhere is still nowhere */
	return fd != -ENOENT ? fd : rootfs_open(root, path, O_PATH | O_DIRECTORY);
}

static bool is_regular(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode);
}

static int existing(int root, const char *folder, const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = rootfs_open(root, path, O_PATH);
	if (fd >= 0 && !is_regular(fd)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

int rootfs_file(int root, const char *folder, const char *name)
{
	int dir, err, fd = existing(root, folder, name);

	if (fd != -ENOENT)
		return fd;
	dir = rootfs_folder(root, folder);
	if (dir < 0)
		return dir;
	err = make(dir, name, S_IFREG | 0644);
	fd = err ? err : openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (!err && fd < 0)
		fd = -errno;
	close(dir);
	return fd;
}

/* A regular file for reading: opening it does not wait, whatever it is by now. */
static int open_regular(int root, const char *path)
{
	int fd = rootfs_open(root, path, O_PATH);
	bool is = fd >= 0 && is_regular(fd);

	if (fd < 0)
		return fd;
	close(fd);
	if (!is)
		return -EINVAL;
	fd = rootfs_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || is_regular(fd))
		return fd;
	close(fd);
	return -EINVAL;
}

ssize_t rootfs_read(int root, const char *path, void *buf, size_t size)
{
	int fd = open_regular(root, path);
	ssize_t n = 0;
	size_t len = 0;

	if (fd < 0)
		return fd;
	while (len < size && (n = read(fd, (char *)buf + len, size - len)) > 0)
		len += (size_t)n;
	if (n < 0)
		n = -errno;
	close(fd);
	return n < 0 ? n : (ssize_t)len;
}

static bool is_there(int root, const char *path)
{
	int fd = rootfs_open(root, path, O_PATH);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void rootfs_our_folder(const struct rootfs_kind *k, const char *lib, char *path, size_t size)
{
	snprintf(path, size, "%s/%s", lib, k->name);
	if (k == rootfs_own && access(path, F_OK))
		snprintf(path, size, "%s", lib);
}

unsigned rootfs_kinds_in(const char *lib)
{
	char path[PATH_MAX];
	unsigned found = 0;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		rootfs_our_folder(&kinds[i], lib, path, sizeof(path));
		if (&kinds[i] == rootfs_own || !access(path, R_OK))
			found |= 1u << i;
	}
	return found;
}

/* Is it a kind's loader? 0, -ENOENT: it has none, -ENOEXEC. */
static int check_loader(int root, const struct rootfs_kind *k)
{
	Elf64_Ehdr h;
	ssize_t n = rootfs_read(root, k->loader, &h, sizeof(h));

	if (n == -ENOENT)
		return -ENOENT;
	return n == sizeof(h) && !memcmp(h.e_ident, ELFMAG, SELFMAG) &&
			       h.e_ident[EI_CLASS] == ELFCLASS64 &&
			       h.e_ident[EI_DATA] == ELFDATA2LSB && h.e_machine == k->machine ?
		       0 :
		       -ENOEXEC;
}

/* Nothing that we have libraries for: what is it? */
static const char *what_it_is(int root)
{
	static const struct {
		const char *loader, *what;
	} others[] = {
		{ "lib64/ld64.so.2", "it is for ppc64le" },
		{ "lib/ld64.so.1", "it is for s390x" },
		{ "lib/ld-linux-riscv64-lp64d.so.1", "it is for riscv64" },
		{ "lib/ld-linux-armhf.so.3", "it is for 32-bit ARM" },
		{ "lib/ld-linux.so.2", "it is for 32-bit x86" },
	};

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (is_there(root, others[i].loader))
			return others[i].what;
	return "there is no dynamic loader in it: its programs are linked statically";
}

const struct rootfs_kind *rootfs_find_kind(int root, unsigned have, char why[WHY_SZ])
{
	const struct rootfs_kind *lacks = NULL, *odd = NULL;

	/* the host's own first: an image may have loaders of several */
	for (size_t i = 0; i <= ARRAY_LEN(kinds); i++) {
		const struct rootfs_kind *k = i ? &kinds[i - 1] : rootfs_own;
		int err = check_loader(root, k);

		if (!err && have & 1u << (k - kinds))
			return k;
		if (err == -ENOEXEC && !odd)
			odd = k;
		if (!err && !lacks)
			lacks = k;
	}
	if (lacks && odd != rootfs_own)
		snprintf(
			why, WHY_SZ,
			"freeflow cannot serve this image: it is for %.*s, and its C library is %s; on this host there "
			"are no libraries for that (%s/, beside those for %s)",
			(int)strcspn(lacks->name, "-"), lacks->name, lacks->libc, lacks->name,
			rootfs_own->name);
	else if (odd)
		snprintf(
			why, WHY_SZ,
			"freeflow cannot serve this image: its dynamic loader, /%s, is not one for %.*s",
			odd->loader, (int)strcspn(odd->name, "-"), odd->name);
	else
		snprintf(
			why, WHY_SZ,
			"freeflow cannot serve this image: %s; it needs one with glibc 2.28 or later for %s",
			what_it_is(root), rootfs_own->name);
	return NULL;
}
