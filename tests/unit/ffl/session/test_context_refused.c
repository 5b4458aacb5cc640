/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_context_refused.c - what a user is told when there is no session: why, and what to do.
 *
 * build: tests/rig/fakes/fake_router.c ffl/session/call.c ffl/session/slot.c ffl/session/context.c ffl/session/table.c
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffl/session/ffl.h"
#include "tests/rig/fakes/fake_router.h"

/* In the place of log.c: what was said last at each level. */
int ffl_log_level = FFL_DEBUG;
static char said[FFL_DEBUG + 1][512];

void ffl_log_(enum ffl_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said[level], sizeof(said[level]), fmt, ap);
	va_end(ap);
}

static struct router r;

static int up(void **state)
{
	(void)state;
	memset(said, 0, sizeof(said));
	memset(&r, 0, sizeof(r));
	router_start(&r);
	setenv("FFL_SOCKET", r.path, 1);
	return 0;
}

static int down(void **state)
{
	(void)state;
	router_stop(&r);
	return 0;
}

static void expect(int err, enum ffl_level level, const char *what)
{
	memset(said, 0, sizeof(said));
	errno = 0;
	assert_null(ffl_session_new(1000));
	assert_int_equal(errno, err);
	if (!strstr(said[level], what))
		fail_msg("\"%s\" is not in \"%s\"", what, said[level]);
	if (level != FFL_ERR)
		assert_string_equal(said[FFL_ERR], "");
}

static void no_router(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/file", r.dir);
	setenv("FFL_SOCKET", path, 1);
	expect(ENOENT, FFL_ERR, "is FFL_SOCKET right?");
	close(open(path, O_CREAT | O_CLOEXEC, 0600));
	expect(ECONNREFUSED, FFL_ERR, "does not run");
	unlink(path);
	/* as on a machine without a NIC, unless somebody has made the folder of the default's */
	unsetenv("FFL_SOCKET");
	if (access("/run/freeflow", F_OK))
		expect(ENOENT, FFL_INFO, FF_SOCKET_DEFAULT);
}

static void refused(void **state)
{
	(void)state;
	r.fault_type = FF_MSG_HELLO;
	r.fault = FAULT_STATUS;
	expect(EMFILE, FFL_ERR, "may not have more sessions");
	r.fault_status = -ENETDOWN; /* as where there is no router, for what waits for one */
	expect(EIO, FFL_ERR, "cut off from the orchestrator");
	r.fault = FAULT_CLOSE;
	expect(EIO, FFL_ERR, "at a limit");
}

/* A router of another version, and one whose first segment has no room for the session's page. */
static void not_understood(void **state)
{
	(void)state;
	r.hello_version = FF_PROTO_VERSION + 1;
	expect(EPROTO, FFL_ERR, "protocol version");
	r.hello_version = 0;
	r.hello_seg0 = sizeof(struct ff_ses_hdr) - 1;
	expect(EPROTO, FFL_ERR, "protocol version");
	r.hello_seg0 = 0;
}

/* As after a change of its user. */
static void not_dumpable(void **state)
{
	(void)state;
	assert_int_equal(chmod(r.dir, 0755) | chmod(r.path, 0666), 0);
	if (!geteuid())
		assert_int_equal(seteuid(65534), 0);
	prctl(PR_SET_DUMPABLE, 0);
	expect(EACCES, FFL_ERR, "cannot open its own memory");
	prctl(PR_SET_DUMPABLE, 1);
	assert_int_equal(seteuid(getuid()), 0);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test_setup_teardown(no_router, up, down),
			cmocka_unit_test_setup_teardown(refused, up, down),
			cmocka_unit_test_setup_teardown(not_understood, up, down),
			cmocka_unit_test_setup_teardown(not_dumpable, up, down));
}
