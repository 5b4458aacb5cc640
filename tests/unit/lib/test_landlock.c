/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_landlock.c - what a thread in each domain reaches: nothing, or its own folders. Each case is a child that enters
 * one without seccomp, which would refuse most of it first.
 */
#include "tests/rig/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ffr/lib/sandbox.h"

#define NET_VERSION 4 /* of Landlock: the first that knows TCP */

static char dir[] = "/tmp/test_landlock.XXXXXX", own[64], own_file[80], other_file[64];
static struct sockaddr_in peer;
static int listener;

static int setup(void **state)
{
	socklen_t len = sizeof(peer);

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(own, sizeof(own), "%s/own", dir);
	snprintf(own_file, sizeof(own_file), "%s/file", own);
	snprintf(other_file, sizeof(other_file), "%s/file", dir);
	if (mkdir(own, 0700))
		return -1;
	close(open(own_file, O_CREAT | O_RDWR, 0600));
	close(open(other_file, O_CREAT | O_RDWR, 0600));
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	peer.sin_family = AF_INET;
	peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return bind(listener, (struct sockaddr *)&peer, len) || listen(listener, 8) ||
	       getsockname(listener, (struct sockaddr *)&peer, &len);
}

static int teardown(void **state)
{
	(void)state;
	close(listener);
	unlink(own_file);
	unlink(other_file);
	return rmdir(own) || rmdir(dir);
}

/* What can be done; a bit each. */
enum {
	READ_OWN = 1,
	WRITE_OWN = 2,
	READ_OTHER = 4,
	WRITE_OTHER = 8,
	MAKE_OTHER = 16,
	CONNECT = 32,
	BIND = 64
};
#define ALL_FILES (READ_OWN | WRITE_OWN | READ_OTHER | WRITE_OTHER)

static int opens(const char *path, int flags, int bit)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0 ? bit : 0;
}

static int done(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	char fresh[80];
	int can = opens(own_file, O_RDONLY, READ_OWN) | opens(own_file, O_WRONLY, WRITE_OWN) |
		  opens(other_file, O_RDONLY, READ_OTHER) |
		  opens(other_file, O_WRONLY, WRITE_OTHER),
	    s = socket(AF_INET, SOCK_STREAM, 0);

	snprintf(fresh, sizeof(fresh), "%s/fresh", dir);
	if (!mkdir(fresh, 0700) && !rmdir(fresh))
		can |= MAKE_OTHER;
	if (!bind(s, (struct sockaddr *)&any, sizeof(any)))
		can |= BIND;
	if (!connect(s, (struct sockaddr *)&peer, sizeof(peer)))
		can |= CONNECT;
	return can;
}

/* What a child can do in that domain. */
static int can_in(int ruleset)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || landlock_enter(ruleset))
			_exit(255);
		_exit(done());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_not_equal(WEXITSTATUS(status), 255);
	return WEXITSTATUS(status);
}

/* Version of the kernel's Landlock; skips a test where there is none. */
static long version(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* its version */);

	if (abi < 1) {
		print_message("no Landlock here\n");
		skip();
	}
	return abi;
}

static void nothing_is_reached(void **state)
{
	long abi = version();
	int fd = landlock_ruleset(NULL);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(can_in(-1), ALL_FILES | MAKE_OTHER | CONNECT | BIND); /* no domain */
	assert_int_equal(can_in(fd), abi < NET_VERSION ? CONNECT | BIND : 0);
	close(fd);
}

static void ones_own_folder_is_reached(void **state)
{
	const struct sandbox_reach reach = { .dirs = { own }, .num_dirs = 1 };
	int fd;

	(void)state;
	version();
	fd = landlock_ruleset(&reach);
	assert_true(fd >= 0);
	assert_int_equal(can_in(fd), READ_OWN | WRITE_OWN | CONNECT | BIND);
	close(fd);
}

/* A folder that the process may only read cannot be written to. */
static void a_folder_to_read(void **state)
{
	const struct sandbox_reach reach = { .read_dirs = { own }, .num_read_dirs = 1 };
	int fd;

	(void)state;
	version();
	fd = landlock_ruleset(&reach);
	assert_true(fd >= 0);
	assert_int_equal(can_in(fd), READ_OWN | CONNECT | BIND);
	close(fd);
}

/* Then there is no domain rather than one that its owner did not ask for. */
static void a_folder_that_is_not_there(void **state)
{
	const struct sandbox_reach reach = { .dirs = { own, "/nonexistent" }, .num_dirs = 2 };

	(void)state;
	version();
	assert_int_equal(landlock_ruleset(&reach), -1);
}

int main(void)
{
	return UNIT_RUN_GROUP(setup, teardown, cmocka_unit_test(nothing_is_reached),
			      cmocka_unit_test(ones_own_folder_is_reached),
			      cmocka_unit_test(a_folder_to_read),
			      cmocka_unit_test(a_folder_that_is_not_there));
}
