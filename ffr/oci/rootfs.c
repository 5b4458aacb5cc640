/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rootfs.c - what is in an image: which C library its programs have, and where they look for libibverbs.
 *
 * The image may be anybody's. A path in it is resolved by the kernel in the image's root (openat2,
 * RESOLVE_IN_ROOT), so a link leads nowhere else; a file is opened without reading until it is known to be a
 * regular one, and then its first bytes are read. No program of it is run, and its loader's cache is not read: the
 * folders that the loaders of Debian, Ubuntu, RHEL, openSUSE and Alpine have built in are few.
 *
 * Our libraries for the host's own machine and glibc are in one folder; those for others (an image for arm64 on an x86
 * host, by QEMU, or one with musl), where they are installed, each in a folder of its name in there.
 *
 * Where one of them has the library, ours is mounted over it; over all of them, since which comes first is the
 * loader's. Where none has, ours is mounted in the first of them that is there.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

const char *const oci_lib[NUM_LIBS] = { "libibverbs.so.1", "librdmacm.so.1" };

#define MAX_FOLDERS 9

struct rootfs_kind {
	const char *name;   /* of its folder among our libraries; messages */
	const char *libc;   /* likewise */
	const char *loader; /* of its programs */
	Elf64_Half machine;
	/* Where loaders look: num_built_in of them without a cache; the others are looked at, too. */
	unsigned num_built_in;
	const char *folder[MAX_FOLDERS];
};

/* Debian's and Ubuntu's, RHEL's and openSUSE's, others'. */
#define GLIBC_FOLDERS(triplet)                                                                     \
	4,                                                                                         \
	{                                                                                          \
		"usr/lib/" triplet, "lib/" triplet, "usr/lib64", "lib64", "usr/local/lib",         \
			"usr/local/lib64", "usr/lib", "lib"                                        \
	}
/* Alpine's: as in musl's own list. */
#define MUSL_FOLDERS                                                                               \
	2,                                                                                         \
	{                                                                                          \
		"usr/lib", "lib", "usr/local/lib"                                                  \
	}

static const struct rootfs_kind kinds[] = {
	{ "x86_64", "glibc", "lib64/ld-linux-x86-64.so.2", EM_X86_64,
	  GLIBC_FOLDERS("x86_64-linux-gnu") },
	{ "aarch64", "glibc", "lib/ld-linux-aarch64.so.1", EM_AARCH64,
	  GLIBC_FOLDERS("aarch64-linux-gnu") },
	{ "x86_64-musl", "musl", "lib/ld-musl-x86_64.so.1", EM_X86_64, MUSL_FOLDERS },
	{ "aarch64-musl", "musl", "lib/ld-musl-aarch64.so.1", EM_AARCH64, MUSL_FOLDERS },
};

#if defined(__x86_64__)
const struct rootfs_kind *const rootfs_own = &kinds[0];
#elif defined(__aarch64__)
const struct rootfs_kind *const rootfs_own = &kinds[1];
#else
#error "which loader has this machine?"
#endif

int rootfs_open(int root, const char *path, int flags)
{
	const struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int rootfs_folder(int root, const char *path)
{
	char part[256];
	int parent, fd = rootfs_open(root, path, O_PATH | O_DIRECTORY);
	const char *slash = strrchr(path, '/');

	if (fd != -ENOENT || strlen(path) >= sizeof(part))
		return fd;
	snprintf(part, sizeof(part), "%.*s", slash ? (int)(slash - path) : 0, path);
	parent = slash ? rootfs_folder(root, part) : dup(root);
	if (parent < 0)
		return parent;
	if (mkdirat(parent, slash ? slash + 1 : path, 0755) && errno != EEXIST)
		fd = -errno;
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
	int dir, made, fd = existing(root, folder, name);

	if (fd != -ENOENT)
		return fd;
	dir = rootfs_folder(root, folder);
	if (dir < 0)
		return dir;
	made = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	fd = made < 0 ? -errno : openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (made >= 0)
		close(made);
	close(dir);
	return made >= 0 && fd < 0 ? -errno : fd;
}

/* The first bytes of a regular file: an ELF header? 0, -errno, or -ENOEXEC. */
static int elf_header(int root, const char *path, Elf64_Ehdr *h)
{
	int fd = rootfs_open(root, path, O_PATH), err = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	if (!is_regular(fd))
		err = -ENOEXEC;
	close(fd);
	if (err)
		return err;
	/* it may be another one by now: opening that does not wait, and reading it is bounded */
	fd = rootfs_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fd;
	n = is_regular(fd) ? pread(fd, h, sizeof(*h), 0) : 0;
	close(fd);
	return n == sizeof(*h) && !memcmp(h->e_ident, ELFMAG, SELFMAG) ? 0 : -ENOEXEC;
}

static bool is_there(int root, const char *path)
{
	int fd = rootfs_open(root, path, O_PATH);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void rootfs_our_lib(const struct rootfs_kind *k, const char *lib, int which, char *path,
		    size_t size)
{
	snprintf(path, size, "%s/%s/%s", lib, k->name, oci_lib[which]);
	if (k == rootfs_own && access(path, F_OK))
		snprintf(path, size, "%s/%s", lib, oci_lib[which]);
}

unsigned rootfs_kinds_in(const char *lib)
{
	char path[PATH_MAX];
	unsigned found = 0;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		rootfs_our_lib(&kinds[i], lib, 0, path, sizeof(path));
		if (&kinds[i] == rootfs_own || !access(path, R_OK))
			found |= 1u << i;
	}
	return found;
}

/* Is it a kind's loader? 0, -ENOENT: it has none, -ENOEXEC. */
static int check_loader(int root, const struct rootfs_kind *k)
{
	Elf64_Ehdr h;
	int err = elf_header(root, k->loader, &h);

	if (err)
		return err == -ENOENT ? err : -ENOEXEC;
	return h.e_ident[EI_CLASS] == ELFCLASS64 && h.e_ident[EI_DATA] == ELFDATA2LSB &&
			       h.e_machine == k->machine ?
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

static bool is_known(const int *fds, unsigned num, int fd)
{
	struct stat a, b;

	for (unsigned i = 0; i < num; i++)
		if (!fstat(fds[i], &a) && !fstat(fd, &b) && a.st_dev == b.st_dev &&
		    a.st_ino == b.st_ino)
			return true;
	return false;
}

int rootfs_libs(int root, const struct rootfs_kind *k, int lib, int *fds, unsigned max,
		char why[WHY_SZ])
{
	const char *name = oci_lib[lib];
	unsigned num = 0;
	int fd;

	for (size_t i = 0; i < MAX_FOLDERS && k->folder[i] && num < max; i++) {
		fd = existing(root, k->folder[i], name);
		if (fd >= 0 && is_known(fds, num, fd))
			close(fd);
		else if (fd >= 0)
			fds[num++] = fd;
	}
	for (size_t i = 0; i < k->num_built_in && !num; i++) {
		if (!is_there(root, k->folder[i]))
			continue;
		fd = rootfs_file(root, k->folder[i], name);
		if (fd >= 0) {
			fds[num++] = fd;
			break;
		}
		snprintf(why, WHY_SZ, "/%s/%s of the image cannot be mounted over: %s",
			 k->folder[i], name, strerror(-fd));
		return fd;
	}
	if (num)
		return (int)num;
	snprintf(why, WHY_SZ,
		 "the image has none of the folders where its loader looks for libraries");
	return -ENOEXEC;
}
