/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_watch.c - ffl/cm/watch.c: the descriptor that tells of a router's return. The test is the router, on a real socket.
 */
#include <poll.h>
#include <sys/stat.h>

#include "ffl/cm/watch.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/common/dir.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/wait.h"

static char dir[] = "/tmp/ff-watch.XXXXXX", path[sizeof(dir) + 16];
static struct cm_watch w;

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static int router_binds(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sa.sun_path, path);
	unlink(path);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

/* A router, in the order of ffr/ctl/container.c: users other than root are let in when it listens. */
static int router_starts(void)
{
	int fd = router_binds();

	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(chmod(path, 0666), 0);
	return fd;
}

/* The question that waits at the router; answered, or the connection is just closed. */
static void router_takes(int fd, bool answers)
{
	struct {
		struct ff_hdr hdr;
		struct ff_challenge_resp resp;
	} answer = { .hdr = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_CHALLENGE } };
	struct ff_hdr hdr;
	int conn = accept(fd, NULL, NULL);

	assert_true(conn >= 0);
	assert_true(recv(conn, &hdr, sizeof(hdr), 0) == sizeof(hdr));
	assert_int_equal(hdr.magic, FF_PROTO_MAGIC);
	assert_int_equal(hdr.type, FF_MSG_CHALLENGE);
	assert_int_equal(hdr.n_fds, 0);
	if (answers)
		assert_int_equal(send(conn, &answer, sizeof(answer), 0), sizeof(answer));
	close(conn);
}

/* The socket is held while the router is started again: the question waits there. */
static void test_answer(void **state)
{
	int fd = router_starts();

	(void)state;
	cm_watch_start(&w);
	assert_int_equal(w.kind, WATCH_ANSWER);
	assert_false(is_readable(w.fd));
	assert_false(cm_watch_look(&w)); /* too early */
	assert_int_equal(w.kind, WATCH_ANSWER);
	router_takes(fd, true);
	assert_true(is_readable(w.fd));
	assert_true(cm_watch_look(&w));
	assert_int_equal(w.fd, -1);
	close(fd);
}

/* No router: its socket is made anew. */
static void test_folder(void **state)
{
	int fd;

	(void)state;
	unlink(path);
	cm_watch_start(&w);
	assert_int_equal(w.kind, WATCH_FOLDER);
	assert_false(is_readable(w.fd));
	fd = router_binds();
	assert_true(is_readable(w.fd));
	assert_false(cm_watch_look(&w)); /* it does not listen yet */
	assert_int_equal(w.kind, WATCH_FOLDER);
	assert_int_equal(listen(fd, 8), 0);
	assert_false(is_readable(w.fd));
	assert_int_equal(chmod(path, 0666), 0);
	assert_true(is_readable(w.fd));
	assert_false(cm_watch_look(&w));
	assert_int_equal(w.kind, WATCH_ANSWER);
	router_takes(fd, true);
	assert_true(cm_watch_look(&w));
	close(fd);
}

/* A router that ends without an answer: the next one is asked at once, but one that hangs up again not before a while. */
static void test_end(void **state)
{
	int fd = router_starts();

	(void)state;
	cm_watch_start(&w);
	close(fd);
	unlink(path);
	assert_true(is_readable(w.fd));
	assert_false(cm_watch_look(&w));
	assert_int_equal(w.kind, WATCH_FOLDER);
	fd = router_starts();
	assert_true(is_readable(w.fd));
	assert_false(cm_watch_look(&w));
	assert_int_equal(w.kind, WATCH_ANSWER);
	router_takes(fd, false);
	assert_false(cm_watch_look(&w));
	assert_int_equal(w.kind, WATCH_ANSWER);
	router_takes(fd, false);
	assert_false(cm_watch_look(&w));
	assert_int_equal(w.kind, WATCH_TIMER);
	assert_false(is_readable(w.fd));
	WAIT_FOR(is_readable(w.fd));
	assert_false(cm_watch_look(&w));
	assert_int_equal(w.kind, WATCH_ANSWER);
	router_takes(fd, true);
	assert_true(cm_watch_look(&w));
	close(fd);
}

/* The folder cannot be watched. */
static void test_no_folder(void **state)
{
	(void)state;
	assert_int_equal(setenv("FFL_SOCKET", "/tmp/ff-no-such-folder/ffr.sock", 1), 0);
	cm_watch_start(&w);
	assert_int_equal(w.kind, WATCH_TIMER);
	assert_int_equal(setenv("FFL_SOCKET", path, 1), 0);
}

static int setup(void **state)
{
	(void)state;
	w = (struct cm_watch){ .fd = -1 };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cm_watch_stop(&w);
	cm_watch_stop(&w);
	assert_int_equal(w.fd, -1);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	int ret;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/ffr.sock", dir);
	setenv("FFL_SOCKET", path, 1);
	ret = UNIT_RUN(TEST(test_answer), TEST(test_folder), TEST(test_end), TEST(test_no_folder));
	unlink(path);
	rmdir(dir);
	return ret;
}
