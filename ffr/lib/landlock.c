/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * landlock.c - threads that reach no files, or only those that are theirs. Called by sandbox.c.
 *
 * Landlock knows paths, which seccomp does not, and knows who may trace whom: a process that is in a
 * domain cannot look into one that is not, whatever the domain is about. So the keeper, whose work is
 * to look into others, is in none. Landlock is of much use for threads that seccomp keeps from opening
 * files anyway, and for those that open their own.
 *
 * glibc has no functions for it, and the headers of Debian 12 (Linux 6.1) know the first half.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"

#define ABI_MAX 6u

#define FS_TRUNCATE	  (1ull << 14) /* version 3 */
#define FS_IOCTL_DEV	  (1ull << 15) /* version 5 */
#define NET_BIND_TCP	  (1ull << 0)  /* version 4 */
#define NET_CONNECT_TCP	  (1ull << 1)
#define SCOPE_ABSTRACT_UX (1ull << 0) /* version 6 */
#define SCOPE_SIGNAL	  (1ull << 1)

struct ruleset_attr { /* uapi's landlock_ruleset_attr of version 6 */
	uint64_t fs, net, scoped;
};

/* All rights that there are in each version, the first of which has 13 of them. */
static const uint64_t fs_rights[ABI_MAX + 1] = {
	[1] = (1ull << 13) - 1, [2] = (1ull << 14) - 1, [3] = (1ull << 15) - 1,
	[4] = (1ull << 15) - 1, [5] = (1ull << 16) - 1, [6] = (1ull << 16) - 1,
};

#define OWN_RIGHTS                                                                                 \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |                            \
	 LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                               \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE |                           \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR |                             \
	 LANDLOCK_ACCESS_FS_MAKE_SYM | FS_TRUNCATE)

#define DEV_RIGHTS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_IOCTL_DEV)

static int rule_add(int fd, const char *dir, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = rights };
	int err = 0;

	rule.parent_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (rule.parent_fd < 0)
		return -errno;
	if (syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
		err = -errno;
	close(rule.parent_fd);
	return err;
}

static int rules_add(int fd, const struct sandbox_reach *reach, uint64_t known)
{
	const char *dir = NULL;
	int err = 0;

	for (size_t i = 0; i < reach->num_dirs && !err; i++) {
		dir = reach->dirs[i];
		err = rule_add(fd, dir, OWN_RIGHTS & known);
	}
	for (size_t i = 0; i < reach->num_read_dirs && !err; i++) {
		dir = reach->read_dirs[i];
		err = rule_add(fd, dir, LANDLOCK_ACCESS_FS_READ_FILE);
	}
	if (reach->dev_dir && !err) {
		dir = reach->dev_dir;
		err = rule_add(fd, dir, DEV_RIGHTS & known);
	}
	if (err)
		log_warn("sandbox: landlock: %s: %s", dir, strerror(-err));
	/* who holds a lock in the store: is that process still there? */
	return err ? err : rule_add(fd, "/proc", LANDLOCK_ACCESS_FS_READ_FILE);
}

int landlock_ruleset(const struct sandbox_reach *reach)
{
	struct ruleset_attr attr = { 0 };
	size_t size = sizeof(attr.fs);
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	int fd, err = 0;

	if (abi < 1)
		return -1;
	if (abi > (long)ABI_MAX)
		abi = ABI_MAX;
	attr.fs = fs_rights[abi];
	if (!reach && abi >= 4) { /* an orchestrator connects to ZooKeeper's nodes */
		attr.net = NET_BIND_TCP | NET_CONNECT_TCP;
		size = offsetof(struct ruleset_attr, scoped);
	}
	if (abi >= 6) {
		attr.scoped = SCOPE_ABSTRACT_UX | SCOPE_SIGNAL;
		size = sizeof(attr);
	}
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (fd < 0) {
		log_warn("sandbox: landlock: %m");
		return -1;
	}
	if (reach)
		err = rules_add(fd, reach, attr.fs);
	if (!err)
		return fd;
	close(fd);
	return -1;
}

int landlock_enter(int ruleset_fd)
{
	if (ruleset_fd < 0)
		return 0;
	return syscall(SYS_landlock_restrict_self, ruleset_fd, 0) ? -errno : 0;
}
