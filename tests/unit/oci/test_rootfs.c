/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/oci/rootfs.c */
/*
 * test_rootfs.c - the layouts of distributions' images, and images that are made to lead the hook astray.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/oci/oci.h"

/* This machine's names, and those of another one that the router knows. */
#ifdef __x86_64__
#define NAME	      "x86_64"
#define MACHINE	      EM_X86_64
#define LIB	      "lib64"
#define LOADER	      LIB "/ld-linux-x86-64.so.2"
#define OTHER	      "aarch64"
#define OTHER_MACHINE EM_AARCH64
#define OTHER_LIB     "lib"
#define OTHER_LOADER  OTHER_LIB "/ld-linux-aarch64.so.1"
#else
#define NAME	      "aarch64"
#define MACHINE	      EM_AARCH64
#define LIB	      "lib"
#define LOADER	      LIB "/ld-linux-aarch64.so.1"
#define OTHER	      "x86_64"
#define OTHER_MACHINE EM_X86_64
#define OTHER_LIB     "lib64"
#define OTHER_LOADER  OTHER_LIB "/ld-linux-x86-64.so.2"
#endif
#define OWN rootfs_kinds_in("/nowhere")

static char dir[64], why[WHY_SZ];
static int root = -1;

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test_rootfs.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	root = open(dir, O_PATH | O_DIRECTORY);
	return root < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	char cmd[128];

	(void)state;
	close(root);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

/* With the folders above it; NULL: a folder. */
static void make(const char *path, const void *text, size_t len)
{
	char cmd[512], full[256];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", dir, path);
	snprintf(cmd, sizeof(cmd), "mkdir -p %s/$(%s %s)", dir, text ? "dirname" : "echo", path);
	assert_int_equal(system(cmd), 0);
	if (!text)
		return;
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
}

static void link_to(const char *target, const char *path)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/%s", dir, path);
	assert_int_equal(symlink(target, full), 0);
}

static void make_loader(const char *path, int machine, int class)
{
	Elf64_Ehdr h = { .e_machine = (Elf64_Half)machine };

	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = (unsigned char)class;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	make(path, &h, sizeof(h));
}

static void assert_is(int fd, const char *path)
{
	char full[256];
	struct stat a, b;

	snprintf(full, sizeof(full), "%s/%s", dir, path);
	assert_int_equal(fstat(fd, &a), 0);
	assert_int_equal(stat(full, &b), 0);
	assert_int_equal(a.st_dev, b.st_dev);
	assert_int_equal(a.st_ino, b.st_ino);
	close(fd);
}

/* usr/lib64 with lib and lib64 as links. Absolute links, as images have them, are of the image's root. */
static void links(void **state)
{
	(void)state;
	make("usr/lib64", NULL, 0);
	make("usr/lib", NULL, 0);
	make_loader("usr/" LOADER, MACHINE, ELFCLASS64);
	link_to("/usr/lib", "lib");
	link_to("usr/lib64", "lib64");
	assert_ptr_equal(rootfs_find_kind(root, 0xf, why), rootfs_own);
}

/* Alpine's layout: libraries of its own kind, where those are installed. */
static void alpine(void **state)
{
	const struct rootfs_kind *k;
	char path[128];

	(void)state;
	make_loader("lib/ld-musl-" NAME ".so.1", MACHINE, ELFCLASS64);
	assert_null(rootfs_find_kind(root, OWN, why));
	assert_non_null(strstr(why, "its C library is musl"));
	k = rootfs_find_kind(root, 0xf, why);
	assert_non_null(k);
	assert_ptr_not_equal(k, rootfs_own);
	assert_string_equal(k->paths, "ld-musl-" NAME ".path");
	rootfs_our_folder(k, "/usr/lib/freeflow", path, sizeof(path));
	assert_string_equal(path, "/usr/lib/freeflow/" NAME "-musl");
	/* with glibc beside musl it is the host's own */
	make_loader(LOADER, MACHINE, ELFCLASS64);
	assert_ptr_equal(rootfs_find_kind(root, 0xf, why), rootfs_own);
}

/* Another machine's, by its loader; which libraries there are is seen in their folder. */
static void another_machine(void **state)
{
	const struct rootfs_kind *k;
	char ours[128], path[256];

	(void)state;
	make_loader("usr/" OTHER_LOADER, OTHER_MACHINE, ELFCLASS64);
	link_to("usr/" OTHER_LIB, OTHER_LIB);
	snprintf(ours, sizeof(ours), "%s/ours", dir);
	make("ours/libibverbs.so.1", "x", 1);
	assert_null(rootfs_find_kind(root, rootfs_kinds_in(ours), why));
	make("ours/" OTHER "/libibverbs.so.1", "x", 1);
	k = rootfs_find_kind(root, rootfs_kinds_in(ours), why);
	assert_non_null(k);
	rootfs_our_folder(k, ours, path, sizeof(path));
	assert_non_null(strstr(path, "/ours/" OTHER));
	rootfs_our_folder(rootfs_own, ours, path, sizeof(path));
	assert_string_equal(path, ours);
}

static void others_are_told_apart(void **state)
{
	(void)state;
	assert_null(rootfs_find_kind(root, OWN, why));
	assert_non_null(strstr(why, "linked statically"));
	make("lib/ld-linux-armhf.so.3", "x", 1);
	assert_null(rootfs_find_kind(root, OWN, why));
	assert_non_null(strstr(why, "it is for 32-bit ARM"));
	make_loader(OTHER_LOADER, OTHER_MACHINE, ELFCLASS64);
	assert_null(rootfs_find_kind(root, OWN, why));
	assert_non_null(strstr(why, "it is for " OTHER ", and its C library is glibc"));
	make_loader(LOADER, OTHER_MACHINE, ELFCLASS64);
	assert_null(rootfs_find_kind(root, OWN, why));
	assert_non_null(strstr(why, "is not one for " NAME));
	make_loader(LOADER, MACHINE, ELFCLASS32);
	assert_null(rootfs_find_kind(root, OWN, why));
	make_loader(LOADER, MACHINE, ELFCLASS64);
	assert_ptr_equal(rootfs_find_kind(root, 0xf, why), rootfs_own);
}

/* What is no regular file of ELF is no loader, and opening it does not wait. */
static void garbage(void **state)
{
	char full[256];

	(void)state;
	snprintf(full, sizeof(full), "%s/%s", dir, LOADER);
	make(LIB, NULL, 0);
	assert_int_equal(mkfifo(full, 0644), 0);
	assert_null(rootfs_find_kind(root, OWN, why));
	unlink(full);
	mkdir(full, 0755);
	assert_null(rootfs_find_kind(root, OWN, why));
	rmdir(full);
	link_to(LOADER, LOADER); /* to itself, in the end */
	assert_null(rootfs_find_kind(root, OWN, why));
	unlink(full);
	make(LOADER, "\177EL", 3);
	assert_null(rootfs_find_kind(root, OWN, why));
	make(LOADER, "", 0);
	assert_int_equal(truncate(full, (off_t)1 << 40),
			 0); /* a large one is read as a small one is */
	assert_null(rootfs_find_kind(root, OWN, why));
}

/* Links to the host's files, by names and by /proc, stay in the image or fail. */
static void links_lead_nowhere(void **state)
{
	char victim[] = "/tmp/test_rootfs_victim.XXXXXX", target[128];
	int fd = mkstemp(victim);
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	make("usr/lib64", NULL, 0);
	snprintf(target, sizeof(target), "../../../../../../..%s", victim);
	link_to(target, "usr/lib64/node");
	/* a link to what is not in the image: refused, and nothing made */
	assert_true(rootfs_file(root, "usr/lib64", "node") < 0);
	assert_int_equal(rootfs_read(root, "usr/lib64/node", target, sizeof(target)), -ENOENT);
	link_to("/proc/self/root/etc", "etc");
	assert_true(rootfs_open(root, "etc/passwd", O_PATH) < 0);
	link_to("/tmp", "run");
	assert_true(rootfs_folder(root, "run/freeflow") < 0);
	assert_int_equal(fstatat(AT_FDCWD, "/tmp/freeflow", &st, 0), -1);
	snprintf(target, sizeof(target), "%s/lib", "../../..");
	link_to("/../../../etc", "usr/lib");
	assert_true(rootfs_open(root, "usr/lib/passwd", O_PATH) < 0);
	/* it leads to the image's own folder once there is one */
	make("tmp", NULL, 0);
	fd = rootfs_folder(root, "run/freeflow");
	assert_true(fd >= 0);
	assert_is(fd, "tmp/freeflow");
	unlink(victim);
}

static void only_over_regular_files(void **state)
{
	char full[256];

	(void)state;
	make("usr/lib64", NULL, 0);
	snprintf(full, sizeof(full), "%s/usr/lib64/node", dir);
	assert_int_equal(mkfifo(full, 0644), 0);
	assert_int_equal(rootfs_file(root, "usr/lib64", "node"), -EINVAL);
	assert_int_equal(rootfs_read(root, "usr/lib64/node", full, sizeof(full)), -EINVAL);
	snprintf(full, sizeof(full), "%s/usr/lib64/node", dir);
	unlink(full);
	assert_int_equal(mkdir(full, 0755), 0);
	assert_int_equal(rootfs_file(root, "usr/lib64", "node"), -EINVAL);
	rmdir(full);
	make("dev", "x", 1);
	assert_int_equal(rootfs_file(root, "dev/infiniband", "uverbs_ff0"), -ENOTDIR);
}

static void write_map(pid_t child, const char *file)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)child, file);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "0 700000 1000", 13), 13);
	close(fd);
}

/* A process with a user namespace and a tmpfs of that at `dir`, until its pipe is closed; 0: not here. */
static pid_t remapped(int pipe_in[2], int pipe_out[2])
{
	pid_t child;
	char c = 0;

	assert_int_equal(pipe(pipe_in) | pipe(pipe_out), 0);
	child = fork();
	if (!child) {
		close(pipe_in[1]);
		close(pipe_out[0]);
		c = unshare(CLONE_NEWUSER | CLONE_NEWNS) ? 'n' : 'y';
		if (write(pipe_out[1], &c, 1) != 1 || read(pipe_in[0], &c, 1) != 1)
			_exit(1);
		c = setgid(0) || setuid(0) || mount("none", dir, "tmpfs", 0, "mode=755") ? 'n' :
											   'y';
		if (write(pipe_out[1], &c, 1) == 1)
			(void)!read(pipe_in[0], &c, 1);
		_exit(0);
	}
	close(pipe_in[0]);
	close(pipe_out[1]);
	assert_int_equal(read(pipe_out[0], &c, 1), 1);
	if (c == 'y') {
		write_map(child, "uid_map");
		write_map(child, "gid_map");
		assert_int_equal(write(pipe_in[1], &c, 1), 1);
		assert_int_equal(read(pipe_out[0], &c, 1), 1);
	}
	return c == 'y' ? child : 0;
}

/* dockerd's userns-remap: what is made is the container's root's, also where the host's root may make nothing. */
static void user_namespace(void **state)
{
	char path[128];
	struct stat st;
	int in[2], out[2], there, fd;
	pid_t child;

	(void)state;
	if (geteuid())
		skip();
	child = remapped(in, out);
	if (!child)
		skip();
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)child, dir);
	there = open(path, O_PATH | O_DIRECTORY);
	assert_int_equal(mkdirat(there, "dev", 0755), -1);
	assert_int_equal(errno, EOVERFLOW);
	fd = rootfs_file(there, "dev/infiniband", "uverbs_ff0");
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_uid, 700000);
	assert_int_equal(st.st_gid, 700000);
	close(fd);
	close(there);
	close(in[1]);
	close(out[0]);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	return UNIT_RUN(T(links), T(alpine), T(another_machine), T(others_are_told_apart),
			T(garbage), T(links_lead_nowhere), T(only_over_regular_files),
			T(user_namespace));
}
