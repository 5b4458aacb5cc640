/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_http.c - the metrics' HTTP server: clients that say nothing, and requests that are refused. The clock is the
 * test's, so that time-outs take no time.
 */
#include "tests/rig/unit/unit.h"

#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "ffr/admin/metrics.h"

#define SILENT	    20 /* more than http.c takes at once */
#define TIMEOUT_SEC 6  /* more than http.c waits for a client */

static time_t later; /* s that the clock is ahead */

/* libuv's and libmicrohttpd's, too. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	int rc = (int)syscall(SYS_clock_gettime, id, ts);

	ts->tv_sec += later;
	return rc;
}

static char path[64], where[80];
static uv_loop_t loop;
static struct metrics *server;

static int start(void **state)
{
	struct metrics_conf conf = { .where = where, .host = "h0", .loop = &loop };

	(void)state;
	snprintf(path, sizeof(path), "/tmp/test_http.%d", (int)getpid());
	snprintf(where, sizeof(where), "unix:%s", path);
	uv_loop_init(&loop);
	return metrics_start(&server, &conf);
}

static int stop(void **state)
{
	(void)state;
	metrics_stop(server);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

static int dial(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	assert_int_equal(connect(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return s;
}

/* Runs the loop for what is ready now, and never sleeps. */
static void turns(void)
{
	for (int i = 0; i < 100; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

/* Would the loop wake up at once? */
static bool poll_readable(void)
{
	struct pollfd p = { .fd = uv_backend_fd(&loop), .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* The status of the answer to a request without a body; 0: there was none. */
static int status_of(const char *what)
{
	char request[128], buf[512] = "";
	int s = dial(), status = 0, len;

	len = snprintf(request, sizeof(request),
		       "%s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", what);
	assert_int_equal(send(s, request, (size_t)len, MSG_NOSIGNAL), len);
	turns();
	(void)!read(s, buf, sizeof(buf) - 1);
	close(s);
	turns();
	(void)!sscanf(buf, "HTTP/1.1 %d ", &status);
	return status;
}

static bool answers(void)
{
	return status_of("GET /x") == 404;
}

static void only_gets_of_metrics_are_answered(void **state)
{
	static const char *const methods[] = { "POST", "PUT", "DELETE", "OPTIONS", "PATCH" };
	char what[32];

	(void)state;
	assert_int_equal(status_of("GET /"), 404);
	assert_int_equal(status_of("HEAD /metricsx"), 404);
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		snprintf(what, sizeof(what), "%s /metrics", methods[i]);
		assert_int_equal(status_of(what), 405);
	}
}

/* They keep others out until their time is over, and no longer: nothing else has to happen. */
static void silent_clients(void **state)
{
	int s[SILENT];
	char c;

	(void)state;
	assert_true(answers());
	for (int i = 0; i < SILENT; i++) {
		s[i] = dial();
		turns();
	}
	for (int round = 0; round < 2; round++) { /* the second: those who had to wait */
		later += TIMEOUT_SEC;
		turns();
	}
	for (int i = 0; i < SILENT; i++) {
		assert_int_equal(read(s[i], &c, 1), 0);
		close(s[i]);
	}
	assert_true(answers());
}

/* Without a descriptor for it a connection waits; the loop does not run for nothing meanwhile. */
static void no_descriptors(void **state)
{
	int s = dial(), highest = dup(s);
	struct rlimit old, none;

	(void)state;
	close(highest);
	getrlimit(RLIMIT_NOFILE, &old);
	none = old;
	none.rlim_cur = (rlim_t)highest;
	setrlimit(RLIMIT_NOFILE, &none);
	turns();
	assert_false(poll_readable());
	setrlimit(RLIMIT_NOFILE, &old);
	close(s);
	later++;
	turns();
	assert_true(answers());
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test_setup_teardown(silent_clients, start, stop),
			cmocka_unit_test_setup_teardown(no_descriptors, start, stop),
			cmocka_unit_test_setup_teardown(only_gets_of_metrics_are_answered, start,
							stop));
}
