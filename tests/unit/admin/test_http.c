/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_http.c - the metrics' HTTP server: clients that say nothing, little, half or too much, that read slowly or not at
 * all, and requests that are refused. The clock is the test's, so that time-outs take no time; the text is, too.
 * build: -Wl,--wrap=metrics_text
 */
#include "tests/rig/unit/unit.h"

#include <errno.h>
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

#define SILENT	    20	       /* more than http.c takes at once */
#define TIMEOUT_SEC 6	       /* more than http.c waits for a client */
#define SLOW_SEC    4	       /* less than that */
#define TEXT_LEN    (8u << 20) /* bytes of the metrics: more than the kernel keeps for a reader */

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static time_t later; /* s that the clock is ahead */

/* libuv's and libmicrohttpd's, too. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	int rc = (int)syscall(SYS_clock_gettime, id, ts);

	ts->tv_sec += later;
	return rc;
}

static unsigned texts; /* that were made */

char *__wrap_metrics_text(const struct metrics_conf *conf, size_t *len);
char *__wrap_metrics_text(const struct metrics_conf *conf, size_t *len)
{
	char *text = malloc(TEXT_LEN);

	(void)conf;
	texts++;
	if (text)
		memset(text, 'm', TEXT_LEN);
	*len = TEXT_LEN;
	return text;
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
	for (size_t i = 0; i < COUNT(methods); i++) {
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

/* Has the server closed it? What it sent before is read. */
static bool ended(int s)
{
	static char buf[65536];
	ssize_t n;

	turns();
	while ((n = recv(s, buf, sizeof(buf), 0)) > 0)
		turns();
	return n == 0 || errno == ECONNRESET;
}

static void say(int s, const char *text)
{
	assert_int_equal(send(s, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	turns();
}

/* All places are taken by clients that do a little now and then, so that none of them is ever silent: each ends. */
static void clients_that_trickle(void **state)
{
	int s[SILENT];

	(void)state;
	for (int i = 0; i < SILENT; i++) {
		s[i] = dial();
		(void)!send(s[i], "GET /", 5, MSG_NOSIGNAL);
		turns();
	}
	for (int round = 0; round < 10; round++) {
		later += SLOW_SEC;
		for (int i = 0; i < SILENT; i++)
			(void)!send(s[i], "x", 1, MSG_NOSIGNAL);
		turns();
	}
	for (int i = 0; i < SILENT; i++) {
		assert_true(ended(s[i]));
		close(s[i]);
	}
	assert_true(answers());
}

/* They ask for the text, and take a piece of it now and then. */
static void slow_readers(void **state)
{
	static char piece[160000]; /* so much that the server can send more */
	int s[SILENT], open = 0;

	(void)state;
	texts = 0;
	for (int i = 0; i < SILENT; i++) {
		s[i] = dial();
		(void)!send(s[i], "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n", 34, MSG_NOSIGNAL);
		turns();
	}
	assert_in_range(texts, 1, 16); /* as many texts are kept as there are places */
	for (int round = 0; round < 10; round++) {
		later += SLOW_SEC;
		for (int i = 0; i < SILENT; i++)
			(void)!recv(s[i], piece, sizeof(piece), 0);
		turns();
	}
	for (int i = 0; i < SILENT; i++) {
		open += !ended(s[i]);
		close(s[i]);
	}
	assert_int_equal(open, 0);
	assert_true(answers());
}

/* A client that goes on reading gets all of the metrics. */
static void a_reader_gets_all(void **state)
{
	static char buf[65536];
	int s = dial();
	size_t got = 0;
	ssize_t n;

	(void)state;
	say(s, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
	while ((n = recv(s, buf, sizeof(buf), 0)) > 0) {
		got += (size_t)n;
		turns();
	}
	assert_int_equal(n, 0); /* an answer is the connection's last */
	assert_true(got > TEXT_LEN);
	close(s);
	turns();
}

/* One connection asks as often as it likes, and reads nothing: it has one answer. */
static void requests_without_end(void **state)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n";
	int s = dial();

	(void)state;
	texts = 0;
	for (int i = 0; i < 1000; i++) {
		(void)!send(s, request, sizeof(request) - 1, MSG_NOSIGNAL);
		turns();
	}
	assert_int_equal(texts, 1);
	close(s);
	turns();
	assert_true(answers());
}

static void requests_that_are_not_whole(void **state)
{
	static const char *const halves[] = {
		"G",
		"GET /metrics HTTP/1.1\r\nHos",
		"GET /metrics HTTP/1.1\r\nHost: h\r\n",
		"GET /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc",
		"GET /metrics HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
	};

	(void)state;
	texts = 0;
	for (int round = 0; round < 3 * SILENT; round++) { /* places are given back */
		int s = dial();

		say(s, halves[(size_t)round % COUNT(halves)]);
		if (round % 2)
			shutdown(s, SHUT_WR);
		turns();
		close(s);
		turns();
	}
	assert_int_equal(texts, 0);
	assert_true(answers());
}

/* A request line, a header, headers and a length that are too long: the connection ends, or says why it is refused. */
static void requests_that_are_too_long(void **state)
{
	static const char *const begins[] = { "", "GET /", "GET / HTTP/1.1\r\nX: ", "GET /metrics?",
					      "\r\n\r\n" };
	static const char *const more[] = { "aaaaaaaa", "a: b\r\n", "%00%00", "\r\n",
					    "\xff\xfe\x01\x02" };

	(void)state;
	for (size_t i = 0; i < COUNT(begins); i++)
		for (size_t k = 0; k < COUNT(more); k++) {
			size_t sent = 0;
			int s = dial();

			say(s, begins[i]);
			for (; sent < 100000; sent += strlen(more[k])) {
				ssize_t n = send(s, more[k], strlen(more[k]), MSG_NOSIGNAL);

				if (n < 0 && errno != EAGAIN)
					break;
				if (sent % 4096 < 8)
					turns();
			}
			later += TIMEOUT_SEC;
			assert_true(ended(s));
			close(s);
			turns();
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
			cmocka_unit_test_setup_teardown(clients_that_trickle, start, stop),
			cmocka_unit_test_setup_teardown(slow_readers, start, stop),
			cmocka_unit_test_setup_teardown(a_reader_gets_all, start, stop),
			cmocka_unit_test_setup_teardown(requests_without_end, start, stop),
			cmocka_unit_test_setup_teardown(requests_that_are_not_whole, start, stop),
			cmocka_unit_test_setup_teardown(requests_that_are_too_long, start, stop),
			cmocka_unit_test_setup_teardown(no_descriptors, start, stop),
			cmocka_unit_test_setup_teardown(only_gets_of_metrics_are_answered, start,
							stop));
}
