/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* router_rig.c - see router_rig.h. */
#include "tests/rig/unit/router_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffr/lib/fds.h"
#include "ffr/orch/orch.h"
#include "tests/rig/common/hello.h"

struct router rt;
char dir[32];
uv_timer_t watchdog;

/* ---- the loop, until something is so -------------------------------------------------------- */

static void on_late(uv_timer_t *t)
{
	(void)t;
	fprintf(stderr, "nothing happens any more\n");
	abort();
}

static void watch(void)
{
	const uint64_t late = unit_slow() * 20000; /* ms */

	uv_timer_init(&rt.loop, &watchdog);
	uv_timer_start(&watchdog, on_late, late, late); /* uv_timer_again() is for what repeats */
	uv_unref((uv_handle_t *)&watchdog);
}

void start_at(const char *orchestrator, void (*before)(void))
{
	static const struct fast_conf fast = FAST_CONF_DEFAULT;
	char err[256];

	memset(&rt, 0, sizeof(rt));
	assert_true(asprintf(&rt.conf.runtime_dir, "%s/run", dir) > 0);
	assert_true(asprintf(&rt.conf.admin_socket, "%s/run/admin.sock", dir) > 0);
	assert_true(asprintf(&rt.conf.store, "%s/run/ffo.db", dir) > 0);
	rt.conf.hostname = strdup("h0");
	rt.conf.orchestrator = strdup(orchestrator);
	rt.conf.fast = fast;
#define X(name, def, max) rt.conf.limits.name = def;
	FFR_LIMITS(X)
#undef X
	router_devices(&rt);
	assert_int_equal(router_init(&rt, err, sizeof(err)), 0);
	watch();
	if (before)
		before();
	assert_int_equal(router_start(&rt), 0);
	WAIT_FOR(rt.admin);
}

void start(void)
{
	start_at("embedded", NULL);
}

void stop(void)
{
	uv_close((uv_handle_t *)&watchdog, NULL);
	router_fini(&rt);
	conf_free(&rt.conf);
}

int make_dir(void)
{
	strcpy(dir, "/tmp/router_rig.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

int remove_dir(void)
{
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	return system(cmd);
}

int router_setup(void **state)
{
	(void)state;
	if (make_dir())
		return -1;
	start();
	return 0;
}

int router_teardown(void **state)
{
	(void)state;
	stop();
	return remove_dir();
}

/* ---- the administrator ----------------------------------------------------------------------- */

int dial(int type, const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/run/%s", dir, name);
	assert_int_equal(connect(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return s;
}

/* The next line, NULL when the connection was closed. */
json_t *next_line(int s)
{
	static char buf[1 << 20];
	size_t n = 0;
	ssize_t got = -1;
	json_t *j;

	for (;;) {
		WAIT_FOR((got = recv(s, buf + n, 1, MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
		if (got <= 0)
			return NULL;
		if (buf[n++] == '\n')
			break;
		while (n < sizeof(buf) && buf[n - 1] != '\n' &&
		       recv(s, buf + n, 1, MSG_DONTWAIT) == 1)
			n++;
		if (buf[n - 1] == '\n')
			break;
	}
	j = json_loadb(buf, n, 0, NULL);
	assert_true(json_is_object(j));
	return j;
}

json_t *ask_text(const char *text)
{
	int s = dial(SOCK_STREAM, "admin.sock");
	json_t *j;

	assert_int_equal(write(s, text, strlen(text)), strlen(text));
	j = next_line(s);
	close(s);
	return j;
}

/* The answer to a request, which must be a good one. */
json_t *ask(const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	json_t *j;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	strcat(text, "\n");
	j = ask_text(text);
	if (!json_is_true(json_object_get(j, "ok")))
		fail_msg("%s: %s", text, json_string_value(json_object_get(j, "message")));
	return j;
}

/* error NULL: any */
void ask_fails(const char *text, const char *error)
{
	char line[1024];
	json_t *j;

	snprintf(line, sizeof(line), "%s\n", text);
	j = ask_text(line);
	assert_true(json_is_false(json_object_get(j, "ok")));
	if (error)
		assert_string_equal(json_string_value(json_object_get(j, "error")), error);
	assert_true(strlen(json_string_value(json_object_get(j, "message"))) > 0);
	json_decref(j);
}

size_t count(const char *request, const char *key)
{
	json_t *j = ask("%s", request);
	size_t n = json_array_size(json_object_get(j, key));

	json_decref(j);
	return n;
}

bool there(const char *name)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/run/%s", dir, name);
	return !lstat(path, &st);
}

/* ---- a client -------------------------------------------------------------------------------- */

int call(int s, uint16_t type, const void *req, size_t len, void *resp, size_t resp_len)
{
	uint8_t buf[1024];
	struct ff_hdr h = { .magic = FF_PROTO_MAGIC, .type = type };
	ssize_t n = -1;

	h.n_fds = type == FF_MSG_HELLO ? 2 : 0;
	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), req, len);
	assert_int_equal(h.n_fds ? hello_send(s, buf, sizeof(h) + len) :
				   send(s, buf, sizeof(h) + len, 0),
			 sizeof(h) + len);
	WAIT_FOR((n = recv(s, buf, sizeof(buf), MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
	assert_int_equal(n, sizeof(h) + resp_len);
	memcpy(&h, buf, sizeof(h));
	memcpy(resp, buf + sizeof(h), resp_len);
	return h.status;
}
uint8_t memory[4096];

/* Take segment 0, and seal it, so that the router serves further calls. */
static void seal_rings(int s)
{
	struct ff_hdr h = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_GET_SEG };
	uint8_t buf[sizeof(h) + sizeof(struct ff_get_seg_req)] = { 0 };
	unsigned n = 0;
	ssize_t got;
	int fd = -1;

	memcpy(buf, &h, sizeof(h));
	assert_int_equal(send(s, buf, sizeof(buf), 0), sizeof(buf));
	WAIT_FOR((got = fds_recv(s, buf, sizeof(buf), &fd, 1, &n, MSG_DONTWAIT)) >= 0 ||
		 errno != EAGAIN);
	assert_int_equal(n, 1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	close(fd);
}

int client(const char *container, uint32_t *pd)
{
	struct ff_hello_req hello = { FF_PROTO_VERSION, FF_PROTO_VERSION, "test", { 0 } };
	struct ff_hello_resp hi;
	struct ff_challenge_req ask = { 0 };
	struct ff_challenge_resp answer;
	struct ff_alloc_pd_req pd_req = { 0 };
	struct ff_alloc_pd_resp pd_resp;
	char path[64];
	int s;

	snprintf(path, sizeof(path), "containers/%s/ffr.sock", container);
	s = dial(SOCK_SEQPACKET, path);
	if (call(s, FF_MSG_HELLO, &hello, sizeof(hello), &hi, sizeof(hi))) { /* before Linux 6.5 */
		CALL(s, CHALLENGE, &ask, &answer);
		memcpy(hello.nonce, answer.nonce, sizeof(hello.nonce));
		CALL(s, HELLO, &hello, &hi);
	}
	seal_rings(s);
	CALL(s, ALLOC_PD, &pd_req, &pd_resp);
	*pd = pd_resp.pd;
	return s;
}

struct ff_reg_mr_resp reg(int s, uint32_t pd)
{
	struct ff_reg_mr_req req = { (uintptr_t)memory, sizeof(memory), 0x1000, pd,
				     IBV_ACCESS_REMOTE_READ };
	struct ff_reg_mr_resp mr;

	CALL(s, REG_MR, &req, &mr);
	return mr;
}

void dereg(int s, uint32_t mr)
{
	struct ff_dereg_mr_req req = { .mr = mr };
	struct ff_dereg_mr_resp resp;

	CALL(s, DEREG_MR, &req, &resp);
}
