/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * main.c - the administrator's tool: the options before the command, and the request to the router. See ffctl(8).
 *
 * One request on the router's admin socket, one answer; what is said there is in admin/socket.c.
 *
 * Tests: system/bad_options.sh, system/ffctl_scripts.sh
 */
#include "ffr/ffctl/ffctl.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffo/base/proto.h"
#include "ffr/lib/version.h"

#define TIMEOUT	    5	 /* seconds that a request and its answer may take: --timeout */
#define TIMEOUT_MAX 3600 /* seconds */

bool json_out;
bool dry_run;
int answer_s = TIMEOUT;
void (*fail_hook)(void);
static const char *admin_path;
static const char *run_path = RUN_DEFAULT;

/* The "code" of an error as JSON, by exit status. */
static const char *const codes[] = {
	[EXIT_FAILURE] = "failed",	[EXIT_USAGE] = "usage",	  [EXIT_LATE] = "no-answer",
	[EXIT_NOT_FOUND] = "not-found", [EXIT_EXISTS] = "exists",
};

/* Ends the program with an object on stderr. */
static void __attribute__((noreturn)) fail_json(int status, char *message)
{
	json_t *error = json_pack("{s:s, s:i}", "code", codes[status], "status", status);

	for (char *p = message; !json_object_get(error, "message"); p++) {
		json_object_set_new(error, "message", json_string(message));
		if ((unsigned char)*p > '~') /* it quotes what is not UTF-8 */
			*p = '?';
	}
	json_dumpf(json_pack("{s:o}", "error", error), stderr, 0);
	fputc('\n', stderr);
	exit(status);
}

static void __attribute__((noreturn)) vfail(int status, const char *fmt, va_list ap)
{
	char *message;

	if (fail_hook)
		fail_hook();
	if (vasprintf(&message, fmt, ap) < 0)
		abort();
	if (json_out)
		fail_json(status, message);
	fprintf(stderr, "ffctl: %s\n", message);
	exit(status);
}

void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfail(EXIT_FAILURE, fmt, ap);
}

void usage_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfail(EXIT_USAGE, fmt, ap);
}

void fail_status(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfail(status, fmt, ap);
}

void late_fail(const char *who)
{
	fail_status(EXIT_LATE,
		    "%s: no answer within %d s (--timeout): it is stopped, stuck or busy; a change "
		    "may still be made",
		    who, answer_s);
}

/* An error of the router's or of the orchestrator's, by its name. */
static void __attribute__((noreturn)) answer_fail(const char *error, const char *message)
{
	fail_status(!strcmp(error, "ENOENT") ? EXIT_NOT_FOUND :
		    !strcmp(error, "EEXIST") ? EXIT_EXISTS :
					       EXIT_FAILURE,
		    "%s", message);
}

const char *admin_socket(void)
{
	return admin_path;
}

const char *socket_dir(void)
{
	return run_path;
}

/* ---- the request --------------------------------------------------------------------------- */

/* Socket paths are short (108 bytes); a long one is reached through its directory. A descriptor or -errno. */
static int admin_connect(int timeout)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const struct timeval tv = { .tv_sec = timeout };
	const char *base = strrchr(admin_path, '/');
	int fd, dir = -1, n, err = 0;
	char *parent;

	if (strlen(admin_path) < sizeof(sa.sun_path) || !base) {
		n = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", admin_path);
	} else {
		parent = strndup(admin_path, (size_t)(base - admin_path));
		dir = parent ? open(parent, O_DIRECTORY | O_CLOEXEC | O_PATH) : -1;
		free(parent);
		n = snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d%s", dir, base);
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (n >= (int)sizeof(sa.sun_path))
		err = -ENAMETOOLONG;
	else if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ||
		 setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) ||
		 connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		err = -errno;
	if (dir >= 0)
		close(dir);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

struct router_stream {
	FILE *f;
	char *text; /* the line at hand */
	size_t size;
};

/* Would a connection start a router that somebody has stopped? */
static bool is_stopped(void)
{
	return !strcmp(admin_path, ADMIN_DEFAULT) && !access(admin_path, F_OK) &&
	       unit_was_stopped();
}

/* Connects, and sends a request. 0 or -errno; -ESHUTDOWN: the router was stopped. */
static int stream_open(struct router_stream *s, const json_t *request, int timeout)
{
	char *line = json_dumps(request, JSON_COMPACT);
	int fd = is_stopped() ? -ESHUTDOWN : admin_connect(timeout), err = 0;

	*s = (struct router_stream){ .f = fd >= 0 ? fdopen(fd, "r+") : NULL };
	errno = 0;
	if (!s->f || !line)
		err = fd < 0 ? fd : -ENOMEM;
	else if (fprintf(s->f, "%s\n", line) < 0 || fflush(s->f))
		err = errno ? -errno : -ECONNRESET;
	if (!s->f && fd >= 0)
		close(fd);
	free(line);
	return err;
}

static void stream_close(struct router_stream *s)
{
	if (s->f)
		fclose(s->f);
	free(s->text);
}

/* The next line: 0 or -errno, as router_try() has it. */
static int stream_line(struct router_stream *s, json_t **line)
{
	*line = NULL;
	errno = 0;
	if (getline(&s->text, &s->size, s->f) < 0)
		return feof(s->f) || !errno ? -ECONNRESET : -errno;
	*line = json_loads(s->text, 0, NULL);
	if (json_is_object(*line))
		return 0;
	json_decref(*line);
	*line = NULL;
	return -EPROTO;
}

int router_try(const json_t *request, int timeout, json_t **answer)
{
	struct router_stream s;
	int err = stream_open(&s, request, timeout);

	*answer = NULL;
	if (!err)
		err = stream_line(&s, answer);
	stream_close(&s);
	return err;
}

static void __attribute__((noreturn)) router_fail(int err)
{
	if (err == -EAGAIN)
		late_fail(admin_path);
	if (err == -ESHUTDOWN)
		fail("%s: ffr.service was stopped: systemctl start ffr", admin_path);
	if (err == -ECONNRESET)
		fail("%s: the router closed the connection", admin_path);
	if (err == -EPROTO)
		fail("%s: the answer is not understood", admin_path);
	fail("%s: %s: is ffr running?", admin_path, strerror(-err));
}

/* One exchange; what is no answer ends the program. */
static json_t *exchange(const json_t *request)
{
	json_t *answer;
	int err = router_try(request, answer_s, &answer);

	if (err)
		router_fail(err);
	return answer;
}

static bool is_ok(const json_t *answer)
{
	return json_is_true(json_object_get(answer, "ok"));
}

/* The orchestrator's answer, with its error in the form of the router's. */
static json_t *orch_answer(const json_t *request)
{
	json_t *answer;
	int err = orch_exchange(request, &answer);

	return err ? json_pack("{s:b, s:s, s:s}", "ok", 0, "error", ffo_error_name(err), "message",
			       orch_why()) :
		     answer;
}

/* An answer, which may be an error, of the router, or of the orchestrator where it is given. Takes the request. */
static json_t *ask(json_t *request, bool router, const char *error, unsigned tries)
{
	json_t *answer;

	if (!request)
		fail("a name or an address is not UTF-8 text");
	for (;;) {
		answer = !router && orch_options.address ? orch_answer(request) : exchange(request);
		if (is_ok(answer) || strcmp(str_of(answer, "error"), error) || !tries--)
			break;
		json_decref(answer);
		usleep(RETRY_US);
	}
	json_decref(request);
	return answer;
}

/* An answer without what says that it is one; an error ends the program. */
static json_t *content(json_t *answer)
{
	if (!is_ok(answer))
		answer_fail(str_of(answer, "error"), str_of(answer, "message"));
	json_object_del(answer, "id");
	json_object_del(answer, "ok");
	return answer;
}

json_t *change(json_t *request)
{
	if (dry_run && request)
		json_object_set_new(request, "dry_run", json_integer(1));
	return request;
}

void dry_run_tell(json_t *j)
{
	if (!dry_run)
		return;
	if (json_out)
		json_object_set_new(j, "dry_run", json_true());
	else
		fputs("ffctl: dry run: nothing has changed\n", stderr);
}

json_t *router_call_while(json_t *request, const char *error, unsigned tries)
{
	return content(ask(request, false, error, tries));
}

json_t *router_itself(json_t *request, const char *error, unsigned tries)
{
	return content(ask(request, true, error, tries));
}

json_t *router_follow(json_t *request, struct router_stream **out)
{
	static const struct timeval for_ever;
	static struct router_stream s;
	json_t *answer;
	int err;

	if (orch_options.address)
		usage_fail(OF_A_ROUTER);
	err = stream_open(&s, request, answer_s);
	if (!err)
		err = stream_line(&s, &answer);
	if (!err && setsockopt(fileno(s.f), SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof(for_ever)))
		err = -errno;
	if (err)
		router_fail(err);
	json_decref(request);
	*out = &s;
	return content(answer);
}

json_t *router_next(struct router_stream *s)
{
	json_t *line;
	int err = stream_line(s, &line);

	if (err)
		router_fail(err);
	return line;
}

json_t *router_call_unless(json_t *request, const char *error)
{
	json_t *answer = ask(request, false, "", 0);

	if (is_ok(answer) || strcmp(str_of(answer, "error"), error))
		return content(answer);
	json_decref(answer);
	return NULL;
}

json_t *router_call(json_t *request)
{
	return router_call_while(request, "", 0);
}

/* The whole of a list that is answered in pages. */
json_t *router_list(const char *op, const char *key)
{
	json_t *list = json_array(), *after = NULL, *answer;

	do {
		answer = router_call(json_pack("{s:s, s:o*}", "op", op, "after", after));
		json_array_extend(list, json_object_get(answer, key));
		after = json_incref(json_object_get(answer, "next"));
		json_decref(answer);
	} while (after);
	return list;
}

void json_print(json_t *j)
{
	if (json_dumpf(j, stdout, JSON_INDENT(2)))
		fail("out of memory");
	putchar('\n');
}

bool json_only(json_t *answer, const char *key)
{
	if (!json_out)
		return false;
	json_print(key ? json_object_get(answer, key) : answer);
	json_decref(answer);
	return true;
}

const char *str_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "?";
}

json_int_t int_of(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

void cmd_ping(int argc, char **argv)
{
	json_t *answer;

	no_more(argc, argv, 1);
	answer = router_call(json_pack("{s:s}", "op", "version"));
	if (json_out)
		json_print(answer);
	else
		printf("ffr %s on %s, %s\n", str_of(answer, "version"), str_of(answer, "hostname"),
		       str_of(answer, "runtime_dir"));
	json_decref(answer);
}

/* ---- the command line ---------------------------------------------------------------------- */

static void __attribute__((noreturn)) end(void)
{
	if (fflush(stdout) || ferror(stdout))
		fail("standard output: %m");
	exit(EXIT_SUCCESS);
}

static int seconds_parse(const char *s)
{
	char *end;
	long n = strtol(s, &end, 10);

	if (end == s || *end || n < 1 || n > TIMEOUT_MAX)
		usage_fail("--timeout: \"%s\" is not a number of seconds from 1 to %d", s,
			   TIMEOUT_MAX);
	return (int)n;
}

/* Options before the command; the index of its first word. */
static int global_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "admin", required_argument, NULL, 'a' },
		{ "socket-dir", required_argument, NULL, 's' },
		{ "timeout", required_argument, NULL, 't' },
		{ "orchestrator", required_argument, NULL, 'o' },
		{ "cert", required_argument, NULL, 'c' },
		{ "key", required_argument, NULL, 'k' },
		{ "ca", required_argument, NULL, 'C' },
		{ "crl", required_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'j' },
		{ "version", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int o;

	opterr = 0;
	while ((o = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
		switch (o) {
		case 'a':
			admin_path = optarg;
			break;
		case 's':
			run_path = optarg;
			break;
		case 't':
			answer_s = seconds_parse(optarg);
			break;
		case 'o':
			orch_options.address = optarg;
			break;
		case 'c':
			orch_options.cert = optarg;
			break;
		case 'k':
			orch_options.key = optarg;
			break;
		case 'C':
			orch_options.ca = optarg;
			break;
		case 'r':
			orch_options.crl = optarg;
			break;
		case 'j':
			json_out = true;
			break;
		case 'v':
			puts("ffctl " FF_VERSION);
			end();
		case 'h':
			help_words(0, NULL);
			end();
		default:
			option_fail(o, argv);
		}
	}
	return optind;
}

/*
 * --json is welcome anywhere, and is looked for first: what is wrong in the other words is then told as JSON. The
 * number of words that are left.
 */
static int json_option(int argc, char **argv)
{
	int n = 1;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json"))
			argv[n++] = argv[i];
		else
			json_out = true;
	}
	argv[n] = NULL;
	return n;
}

/* Is help wanted rather than the command? What stands behind "--" is no option. */
static bool help_wanted(char **argv)
{
	for (; *argv && strcmp(*argv, "--"); argv++)
		if (!strcmp(*argv, "--help") || !strcmp(*argv, "-h"))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	int at;

	admin_path = getenv("FFCTL_ADMIN");
	if (!admin_path || !*admin_path)
		admin_path = ADMIN_DEFAULT;
	argc = json_option(argc, argv);
	at = global_options(argc, argv);
	if (at == argc)
		usage_fail("a command is missing; see ffctl --help");
	if (help_wanted(argv + at))
		help_words(argc - at, argv + at);
	else
		command_run(argc - at, argv + at);
	end();
}
