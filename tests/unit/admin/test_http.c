/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_http.c - the metrics' HTTP server: clients that say nothing, little, half or too much, that read slowly or not at
 * all, requests that are refused, and what a browser is told to do with the status page. The clock is the test's, so that
 * time-outs take no time; the text is, too, and when the page's numbers are made.
 * build: -Wl,--wrap=metrics_text,--wrap=status_begin,--wrap=status_step,--wrap=status_end
 */
#include "tests/rig/unit/unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/evp.h>
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
#include "ffr/admin/status.h"

#define SILENT	    20	       /* more than http.c takes at once */
#define PLACES	    16	       /* as many as that */
#define TIMEOUT_SEC 6	       /* more than http.c waits for a client */
#define SLOW_SEC    4	       /* less than that */
#define FRESH_SEC   1	       /* after which numbers are old */
#define LIFE_SEC    11	       /* more than a connection lasts */
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

static unsigned begun; /* how often numbers were begun to be made */
static bool hold;      /* they are not ready yet */

struct status *__wrap_status_begin(const struct metrics_conf *conf);
struct status *__wrap_status_begin(const struct metrics_conf *conf)
{
	static char some;

	(void)conf;
	begun++;
	return (struct status *)&some;
}

bool __wrap_status_step(struct status *s);
bool __wrap_status_step(struct status *s)
{
	(void)s;
	return hold;
}

char *__wrap_status_end(struct status *s, size_t *len);
char *__wrap_status_end(struct status *s, size_t *len)
{
	(void)s;
	return __wrap_metrics_text(NULL, len);
}

static char path[64], where[80];
static uv_loop_t loop;
static struct metrics *server;

static int start(void **state)
{
	struct metrics_conf conf = { .where = where, .host = "h0", .loop = &loop };

	(void)state;
	texts = begun = 0;
	hold = false;
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

static void only_gets_of_what_there_is_are_answered(void **state)
{
	static const char *const methods[] = { "POST", "PUT", "DELETE", "OPTIONS", "PATCH" };
	char what[32];

	(void)state;
	assert_int_equal(status_of("GET /"), 200);
	assert_int_equal(status_of("HEAD /"), 200);
	assert_int_equal(status_of("GET /status"), 404);
	assert_int_equal(status_of("GET /status.html"), 404);
	assert_int_equal(status_of("POST /"), 405);
	assert_int_equal(status_of("POST /status.json"), 405);
	assert_int_equal(status_of("HEAD /metricsx"), 404);
	for (size_t i = 0; i < COUNT(methods); i++) {
		snprintf(what, sizeof(what), "%s /metrics", methods[i]);
		assert_int_equal(status_of(what), 405);
	}
}

/* ---- the page ----------------------------------------------------------------------------------- */

/* 'sha256-...' of what is between the tags, which the page has once. */
static void digest(const char *open, const char *close, char out[64])
{
	const char *begin = strstr(status_page, open), *end = strstr(status_page, close);
	unsigned char sum[32], text[45];

	assert_non_null(begin);
	begin += strlen(open);
	assert_true(end > begin);
	assert_null(strstr(begin, open));
	assert_true(EVP_Digest(begin, (size_t)(end - begin), sum, NULL, EVP_sha256(), NULL));
	EVP_EncodeBlock(text, sum, sizeof(sum));
	snprintf(out, 64, "'sha256-%s'", (const char *)text);
}

static void the_policy_lets_this_page_alone_run(void **state)
{
	char script[64], style[64], want[512];

	(void)state;
	digest("<script>", "</script>", script);
	digest("<style>", "</style>", style);
	snprintf(want, sizeof(want),
		 "default-src 'none'; script-src %s; style-src %s; connect-src 'self'; base-uri "
		 "'none'; form-action 'none'; frame-ancestors 'none'",
		 script, style);
	assert_string_equal(status_policy, want);
}

static void the_page_comes_with_its_policy(void **state)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
	char buf[65536] = "", want[600];
	int s = dial();

	(void)state;
	assert_int_equal(send(s, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	turns();
	assert_true(read(s, buf, sizeof(buf) - 1) > 0);
	close(s);
	turns();
	snprintf(want, sizeof(want), "\r\nContent-Security-Policy: %s\r\n", status_policy);
	assert_non_null(strstr(buf, want));
	assert_non_null(strstr(buf, "\r\nContent-Type: text/html; charset=utf-8\r\n"));
	assert_non_null(strstr(buf, "\r\nX-Frame-Options: DENY\r\n"));
	assert_non_null(strstr(buf, "\r\n\r\n<!DOCTYPE html>\n"));
}

/* Names get into the page as text, and it asks nobody else. */
static void the_page_makes_no_html_and_names_no_other_origin(void **state)
{
	static const char *const never[] = { "innerHTML",
					     "outerHTML",
					     "insertAdjacentHTML",
					     "document.write",
					     "eval(",
					     "https://",
					     "src=",
					     "href=",
					     "onclick",
					     "setAttribute(\"style" };

	(void)state;
	for (size_t i = 0; i < COUNT(never); i++)
		assert_null(strstr(status_page, never[i]));
}

/* The status of an answer at an address, to who asks for that host; NULL: for none. */
static int status_for(const struct sockaddr_in *sa, const char *host, const char *url)
{
	int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), status = 0, len;
	char text[256], buf[512] = "";

	assert_true(!connect(s, (const struct sockaddr *)sa, sizeof(*sa)) || errno == EINPROGRESS);
	len = host ? snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", url,
			      host) :
		     snprintf(text, sizeof(text), "GET %s HTTP/1.0\r\n\r\n", url);
	assert_int_equal(send(s, text, (size_t)len, MSG_NOSIGNAL), len);
	turns();
	(void)!read(s, buf, sizeof(buf) - 1);
	close(s);
	turns();
	(void)!sscanf(buf, "HTTP/1.%*d %d ", &status);
	return status;
}

/* A name of somebody else's leads here: his pages must not read this one. Prometheus may use any name. */
static void other_names_of_the_address(void **state)
{
	static const char *const own[] = { "127.0.0.1", "127.0.0.1:9790", "localhost",
					   "LocalHost:1", "[::1]:9790" };
	static const char *const bad[] = { "evil.example",
					   "evil.example:9790",
					   "127.0.0.1.evil.example",
					   "localhost.evil.example:9790",
					   "",
					   ":9790",
					   "[evil.example]" };
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct metrics_conf conf = { .where = where, .host = "h0", .loop = &loop };
	socklen_t len = sizeof(sa);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(bind(s, (struct sockaddr *)&sa, sizeof(sa)), 0); /* a port that is free */
	assert_int_equal(getsockname(s, (struct sockaddr *)&sa, &len), 0);
	close(s);
	snprintf(where, sizeof(where), "tcp:127.0.0.1:%u", ntohs(sa.sin_port));
	uv_loop_init(&loop);
	assert_int_equal(metrics_start(&server, &conf), 0);
	for (size_t i = 0; i < COUNT(own); i++)
		assert_int_equal(status_for(&sa, own[i], "/"), 200);
	assert_int_equal(status_for(&sa, NULL, "/"), 200);
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_int_equal(status_for(&sa, bad[i], "/"), 403);
		assert_int_equal(status_for(&sa, bad[i], "/status.json"), 403);
	}
	stop(NULL);
}

/* ---- clients ------------------------------------------------------------------------------------ */

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

/* How much there is to read until the server ends the connection. */
static size_t read_all(int s)
{
	static char buf[1 << 20];
	size_t got = 0;
	ssize_t n;

	turns();
	while ((n = recv(s, buf, sizeof(buf), 0)) > 0) {
		got += (size_t)n;
		turns();
	}
	assert_int_equal(n, 0); /* an answer is the connection's last */
	close(s);
	turns();
	return got;
}

/* A client that goes on reading gets all of the metrics. */
static void a_reader_gets_all(void **state)
{
	int s = dial();

	(void)state;
	say(s, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_true(read_all(s) > TEXT_LEN);
}

/* One connection asks as often as it likes, and reads nothing: it has one answer. */
static void requests_without_end(void **state)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n";
	int s = dial();

	(void)state;
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

/* ---- clients that wait for the page's numbers ------------------------------------------------------- */

#define NUMBERS "GET /status.json HTTP/1.1\r\nHost: h\r\n\r\n"

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Others are answered meanwhile, and those that wait get the numbers, even if these take longer than a connection lasts. */
static void numbers_that_take_long(void **state)
{
	int s[PLACES - 1];

	(void)state;
	hold = true;
	for (size_t i = 0; i < COUNT(s); i++)
		say(s[i] = dial(), NUMBERS);
	for (int round = 0; round < 3; round++) {
		later += LIFE_SEC;
		assert_true(answers());
	}
	assert_int_equal(begun, 1);
	hold = false;
	for (size_t i = 0; i < COUNT(s); i++)
		assert_true(read_all(s[i]) > TEXT_LEN);
}

/* All places wait. Who has asked before others do is answered before them. */
static void all_places_wait(void **state)
{
	char buf[512] = "";
	int s[PLACES], prometheus, more[PLACES];

	(void)state;
	hold = true;
	for (int i = 0; i < PLACES; i++)
		say(s[i] = dial(), NUMBERS);
	say(prometheus = dial(), "GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_int_equal(begun, 1);
	assert_int_equal(texts, 0);
	hold = false;
	turns();
	hold = true;
	assert_int_equal(texts, 1); /* theirs, for all of them */
	later += FRESH_SEC;
	for (int i = 0; i < PLACES; i++) { /* each takes its answer, and asks again at once */
		assert_true(read_all(s[i]) > TEXT_LEN);
		more[i] = dial();
		(void)!send(more[i], NUMBERS, strlen(NUMBERS), MSG_NOSIGNAL);
	}
	turns();
	assert_true(read(prometheus, buf, sizeof(buf) - 1) > 0);
	assert_non_null(strstr(buf, "HTTP/1.1 404 "));
	close(prometheus);
	hold = false;
	for (int i = 0; i < PLACES; i++)
		assert_true(read_all(more[i]) > TEXT_LEN);
}

/* They ask, and are gone before there are numbers: each round is made once, and leaves nothing open. */
static void clients_that_do_not_wait(void **state)
{
	int before;

	(void)state;
	assert_true(answers());
	before = descriptors();
	for (unsigned round = 1; round <= 5; round++) {
		later += FRESH_SEC;
		hold = true;
		for (int i = 0; i < PLACES; i++) {
			int s = dial();

			say(s, NUMBERS);
			if (i % 2)
				shutdown(s, SHUT_WR);
			close(s);
			turns();
		}
		assert_in_range(descriptors(), before, before + PLACES);
		hold = false;
		turns();
		assert_int_equal(descriptors(), before);
		assert_int_equal(begun, round);
		assert_true(answers());
	}
}

/*
 * Each second another client asks for numbers, which are new, and takes a piece of them now and then. As many numbers
 * are kept as there are places, because a connection has one of them, and others are answered all the time.
 */
static void slow_readers_of_new_numbers(void **state)
{
	static char piece[160000];
	int s[3 * PLACES], before;

	(void)state;
	assert_true(answers());
	before = descriptors();
	for (int round = 0; round < (int)COUNT(s); round++) {
		later += FRESH_SEC;
		say(s[round] = dial(), NUMBERS);
		for (int i = 0; i < round; i++)
			(void)!recv(s[i], piece, sizeof(piece), 0);
		assert_true(answers());
		assert_in_range(descriptors() - round - 1, before, before + PLACES);
	}
	assert_in_range(begun, 1, COUNT(s));
	later += LIFE_SEC;
	for (size_t i = 0; i < COUNT(s); i++) {
		assert_true(ended(s[i]));
		close(s[i]);
	}
	turns();
	assert_int_equal(descriptors(), before);
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
			cmocka_unit_test_setup_teardown(numbers_that_take_long, start, stop),
			cmocka_unit_test_setup_teardown(all_places_wait, start, stop),
			cmocka_unit_test_setup_teardown(clients_that_do_not_wait, start, stop),
			cmocka_unit_test_setup_teardown(slow_readers_of_new_numbers, start, stop),
			cmocka_unit_test_setup_teardown(no_descriptors, start, stop),
			cmocka_unit_test_setup_teardown(only_gets_of_what_there_is_are_answered,
							start, stop),
			cmocka_unit_test_setup_teardown(the_page_comes_with_its_policy, start,
							stop),
			cmocka_unit_test(the_policy_lets_this_page_alone_run),
			cmocka_unit_test(the_page_makes_no_html_and_names_no_other_origin),
			cmocka_unit_test(other_names_of_the_address));
}
