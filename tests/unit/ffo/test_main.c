/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/lib/log.c */
/*
 * test_main.c - the daemon as a process: its command line, its end by SIGTERM, and what it
 * keeps when it is killed.
 */

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define main ffo_main
#include "tests/rig/unit/unit.h"
#include "ffo/main.c"
#undef main

#include "ffo/client/client.h"

#define MAX_ARGS 16

static struct {
	char dir[40], store[64], address[64];
} test;

static int setup(void **state)
{
	(void)state;
	strcpy(test.dir, "/tmp/test_ffo_main.XXXXXX");
	assert_non_null(mkdtemp(test.dir));
	snprintf(test.store, sizeof(test.store), "%s/ffo.db", test.dir);
	snprintf(test.address, sizeof(test.address), "unix:%s/sock", test.dir);
	return 0;
}

static int teardown(void **state)
{
	static const char *const files[] = { "ffo.db", "ffo.db-wal", "sock" };
	char path[64];

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", test.dir, files[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(test.dir), 0);
	return 0;
}

/* Run ffo with words of a command line; its output goes to *out. */
static pid_t spawn(const char *words, int *out)
{
	char line[256], *argv[MAX_ARGS + 1] = { (char *)"ffo" }, *word, *at;
	int argc = 1, fd[2];
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no daemon */
		close(fd[0]);
		dup2(fd[1], STDOUT_FILENO);
		dup2(fd[1], STDERR_FILENO);
		snprintf(line, sizeof(line), "%s", words);
		for (word = strtok_r(line, " ", &at); word && argc < MAX_ARGS;
		     word = strtok_r(NULL, " ", &at))
			argv[argc++] = strcmp(word, "''") ? word : (char *)"";
		exit(ffo_main(argc, argv));
	}
	close(fd[1]);
	*out = fd[0];
	return pid;
}

/* Its exit status; what it printed is in text[]. */
static int finish(pid_t pid, int out, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;
	int status;

	while ((n = read(out, text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(out);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void test_bad_options(void **state)
{
	static const struct {
		int status;
		const char *words, *line;
	} cases[] = {
		{ 2, "--bogus", "ffo: wrong option --bogus; see ffo --help\n" },
		{ 2, "-Zx", "ffo: unknown option -Z; see ffo --help\n" },
		{ 2, "--store", "ffo: option --store needs an argument; see ffo --help\n" },
		{ 2, "--store ''", "ffo: --store needs a file name; see ffo --help\n" },
		{ 2, "--log-level loud",
		  "ffo: --log-level loud: must be error, warning, info or debug; see ffo --help\n" },
		{ 2, "--listen somewhere",
		  "ffo: --listen somewhere: must be unix:/path, tls:address:port or tcp:address:port; see ffo --help\n" },
		{ 2, "--listen tls:127.0.0.1:7",
		  "ffo: --listen tls:127.0.0.1:7 needs --cert; see ffo --help\n" },
		{ 2, "--cert /a --ca /b --listen tls:[::1]:7",
		  "ffo: --listen tls:[::1]:7 needs --key; see ffo --help\n" },
		{ 2, "--cert /a --key /b --listen tls:[::1]:7",
		  "ffo: --listen tls:[::1]:7 needs --ca; see ffo --help\n" },
		{ 2, "--key /b",
		  "ffo: --cert, --key and --ca need each other: there is no --cert; "
		  "see ffo --help\n" },
		{ 2, "--crl /a",
		  "ffo: --crl is for tls: addresses: there is no --cert; see ffo --help\n" },
		{ 1, "--store :memory: --cert /none --key /b --ca /c", NULL },
		{ 2, "--pool4 10.0.0.1/8",
		  "ffo: address pool \"10.0.0.1/8\" has bits set behind its length; see ffo --help\n" },
		{ 2, "--pool4 fd00::/64",
		  "ffo: address pool \"fd00::/64\" is no IPv4 prefix; see ffo --help\n" },
		{ 2, "--pool6 t=10.0.0.0/8",
		  "ffo: address pool \"t=10.0.0.0/8\" is no IPv6 prefix; see ffo --help\n" },
		{ 2, "now", "ffo: unexpected argument \"now\"; see ffo --help\n" },
		{ 1, "--store /nonexistent/x", NULL },
		{ 1, "--store /dev/null", NULL },
		{ 1, "--store :memory: --listen unix:/nonexistent/x", NULL },
		{ 1, "--store :memory: --listen tcp:192.0.2.1:9", NULL },
		{ 0, "--version", "ffo (freeflow) " FF_VERSION "\n" },
	};
	char text[4096];
	int out;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t pid = spawn(cases[i].words, &out);

		assert_int_equal(finish(pid, out, text, sizeof(text)), cases[i].status);
		if (cases[i].line)
			assert_string_equal(text, cases[i].line);
		/* One line, whatever it says. */
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	}
}

static void test_help(void **state)
{
	char text[4096];
	int out;
	pid_t pid = spawn("-h", &out);

	(void)state;
	assert_int_equal(finish(pid, out, text, sizeof(text)), 0);
	for (const struct option *o = long_options; o->name; o++)
		assert_non_null(strstr(text, o->name));
}

/* ---- as a daemon ---------------------------------------------------------------------------- */

struct asked {
	uv_loop_t loop;
	struct ffo_client *client;
	bool answered, lost;
	int err;
	size_t containers;
};

static void answered(void *arg, int err, const char *why, json_t *answer)
{
	struct asked *a = arg;

	(void)why;
	a->err = err;
	a->answered = true;
	a->containers = json_array_size(json_object_get(answer, "containers"));
}

static void lost(void *arg, int err)
{
	(void)err;
	((struct asked *)arg)->lost = true;
}

static bool ask(struct asked *a, enum ffo_op op, json_t *fields)
{
	a->answered = false;
	if (ffo_client_call(a->client, op, fields, answered, a) && !a->lost)
		a->err = -ENOTCONN;
	while (!a->answered && !a->lost)
		uv_run(&a->loop, UV_RUN_ONCE);
	return a->answered && !a->err && !a->lost;
}

/* Say hello, as soon as it listens. */
static void reach(struct asked *a, const char *address)
{
	bool there = false;

	memset(a, 0, sizeof(*a));
	uv_loop_init(&a->loop);
	for (int i = 0; !there; i++) {
		assert_true(i < 1000000);
		a->lost = false;
		assert_int_equal(ffo_client_connect(&a->loop, address, NULL, lost, a, &a->client),
				 0);
		there = ask(a, FFO_OP_HELLO, json_pack("{s:i}", "version", 1));
		if (!there && !a->lost)
			ffo_client_close(a->client);
		uv_run(&a->loop, UV_RUN_NOWAIT);
	}
}

static void leave(struct asked *a)
{
	ffo_client_close(a->client);
	uv_run(&a->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&a->loop), 0);
}

static void test_daemon(void **state)
{
	char words[200], text[4096];
	struct asked a;
	pid_t pid;
	int out;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	snprintf(words, sizeof(words), "--store %s --listen %s --pool4 10.1.0.0/16", test.store,
		 test.address);
	/* Killed: what it has acknowledged is there afterwards, and its dead socket is no obstacle. */
	for (size_t round = 0; round < 3; round++) {
		pid = spawn(words, &out);
		reach(&a, test.address);
		assert_true(ask(&a, FFO_OP_CONTAINER_LIST, NULL));
		assert_int_equal(a.containers, round);
		assert_true(ask(&a, FFO_OP_CONTAINER_ADD,
				json_pack("{s:o, s:s}", "name", json_sprintf("c%zu", round), "host",
					  "h0")));
		kill(pid, SIGKILL);
		assert_int_equal(finish(pid, out, text, sizeof(text)), -SIGKILL);
		leave(&a);
	}
	/* A second one on the same store or socket is refused, the first one serves on. */
	pid = spawn(words, &out);
	reach(&a, test.address);
	{
		char second[200], second_text[4096];
		int second_out;
		pid_t second_pid = spawn(words, &second_out);

		assert_int_equal(finish(second_pid, second_out, second_text, sizeof(second_text)),
				 1);
		snprintf(second, sizeof(second), "--store :memory: --listen %s", test.address);
		second_pid = spawn(second, &second_out);
		assert_int_equal(finish(second_pid, second_out, second_text, sizeof(second_text)),
				 1);
	}
	assert_true(ask(&a, FFO_OP_CONTAINER_LIST, NULL));
	assert_int_equal(a.containers, 3);
	/* Asked to end: with status 0, and without its socket. */
	kill(pid, SIGTERM);
	assert_int_equal(finish(pid, out, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "ready"));
	leave(&a);
	assert_int_equal(access(test.address + strlen("unix:"), F_OK), -1);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(test_bad_options), cmocka_unit_test(test_help),
			cmocka_unit_test_setup_teardown(test_daemon, setup, teardown));
}
