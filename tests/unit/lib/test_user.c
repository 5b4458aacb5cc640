/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_user.c - whom the router becomes, what is given to him, and what he has left. build: ffr/lib/user.c ffr/lib/log.c */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/lib/user.h"

#define SOMEBODY 60998

static const struct user somebody = { SOMEBODY, SOMEBODY };
static char dir[64];

static void need_root(void)
{
	if (geteuid())
		skip();
}

static void names_and_numbers(void **state)
{
	struct user u;

	(void)state;
	assert_int_equal(user_find("60998:60997", &u), 0);
	assert_int_equal(u.uid, 60998);
	assert_int_equal(u.gid, 60997);
	assert_int_equal(user_find("nobody", &u), 0);
	assert_int_equal(u.uid, 65534);
	assert_int_equal(user_find("no-such-user-here", &u), -ENOENT);
	assert_int_equal(user_find("", &u), -ENOENT);
	/* nobody means these */
	assert_int_equal(user_find("root", &u), -EINVAL);
	assert_int_equal(user_find("0:1", &u), -EINVAL);
	assert_int_equal(user_find("1:0", &u), -EINVAL);
	assert_int_equal(user_find("60998", &u), -EINVAL);
	assert_int_equal(user_find("60998:", &u), -EINVAL);
	assert_int_equal(user_find("60998:60997x", &u), -EINVAL);
	assert_int_equal(user_find("4294967295:1", &u), -EINVAL);
	assert_int_equal(user_find("99999999999999999999:1", &u), -EINVAL);
}

static int make(const char *name, mode_t mode)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC, mode);
}

static uid_t owner(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_uid;
}

static void roots_files_are_given(void **state)
{
	int fd = make("file", 0600), d = open(dir, O_DIRECTORY | O_RDONLY);

	(void)state;
	need_root();
	assert_int_equal(user_own(&somebody, fd), 0);
	assert_int_equal(owner(fd), SOMEBODY);
	assert_int_equal(user_own(&somebody, fd), 0); /* it is his */
	assert_int_equal(user_own(&somebody, d), 0);
	assert_int_equal(owner(d), SOMEBODY);
	assert_int_equal(fchown(d, 0, 0), 0);
	close(fd);
	close(d);
}

/* A user that was taken over puts something in the way that the next start would give away. */
static void others_files_are_not(void **state)
{
	char from[128], to[128];
	int fd = make("theirs", 0600), p[2];

	(void)state;
	need_root();
	assert_int_equal(fchown(fd, 60997, 60997), 0);
	assert_int_equal(user_own(&somebody, fd), -EPERM);
	assert_int_equal(owner(fd), 60997);
	close(fd);
	fd = make("linked", 0600);
	snprintf(from, sizeof(from), "%s/linked", dir);
	snprintf(to, sizeof(to), "%s/again", dir);
	assert_int_equal(link(from, to), 0);
	assert_int_equal(user_own(&somebody, fd), -EPERM);
	assert_int_equal(owner(fd), 0);
	close(fd);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(user_own(&somebody, p[0]), -EPERM);
	close(p[0]);
	close(p[1]);
	fd = open("/dev/null", O_RDWR);
	assert_int_equal(user_own(&somebody, fd), -EPERM);
	assert_int_equal(owner(fd), 0);
	close(fd);
}

/* Exits with the number of the line that did not hold. */
#define MUST(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			_exit(__LINE__ & 0xff ? __LINE__ & 0xff : 1);                              \
	} while (0)

static uint64_t status_hex(const char *name)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long v = ~0ull;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			v = strtoull(line + strlen(name), NULL, 16);
	if (f)
		fclose(f);
	return v;
}

static void namespace_of(const char *kind, char link[64])
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	n = readlink(path, link, 63);
	link[n > 0 ? n : 0] = '\0';
}

static void he_has_nothing_left(void **state)
{
	struct user_rights r = { .rt_priority = 1, .own_network = true, .ends_with = getpid() };
	const gid_t group = 4; /* one that root may be in, as adm */
	char net[64], ipc[64], now[64];
	int status, sig = 0;
	pid_t pid;

	(void)state;
	need_root();
	namespace_of("net", net);
	namespace_of("ipc", ipc);
	pid = fork();
	if (!pid) {
		struct rlimit rl;

		MUST(!setgroups(1, &group));
		MUST(!user_become(&somebody, &r));
		MUST(getuid() == SOMEBODY && geteuid() == SOMEBODY && getgid() == SOMEBODY);
		MUST(getgroups(0, NULL) == 0);
		MUST(status_hex("CapEff:") == (r.keeps_nice ? 1ull << 23 : 0));
		MUST(status_hex("CapPrm:") == (r.keeps_nice ? 1ull << 23 : 0));
		MUST(status_hex("CapBnd:") == 0 && status_hex("CapInh:") == 0 &&
		     status_hex("CapAmb:") == 0);
		MUST(!getrlimit(RLIMIT_RTPRIO, &rl) && (r.keeps_nice || rl.rlim_cur >= 1));
		MUST(setuid(0) && setgid(0) && errno == EPERM);
		MUST(open("/etc/shadow", O_RDONLY) < 0);
		MUST(!prctl(PR_GET_PDEATHSIG, &sig) && sig == SIGKILL);
		namespace_of("ipc", now);
		MUST(strcmp(ipc, now));
		namespace_of("net", now);
		MUST(strcmp(net, now));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Who started him is gone already: he does not stay behind. */
static void he_does_not_outlive_his_parent(void **state)
{
	struct user_rights r = { .ends_with = 1 << 22 };
	int status;
	pid_t pid;

	(void)state;
	need_root();
	pid = fork();
	if (!pid)
		_exit(user_become(&somebody, &r) == -ESRCH ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test_user.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	return UNIT_RUN_GROUP(setup, teardown, cmocka_unit_test(names_and_numbers),
			      cmocka_unit_test(roots_files_are_given),
			      cmocka_unit_test(others_files_are_not),
			      cmocka_unit_test(he_has_nothing_left),
			      cmocka_unit_test(he_does_not_outlive_his_parent));
}
