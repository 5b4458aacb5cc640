/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_addr.c - addresses as text. build: ffr/lib/addr.c */
#include <errno.h>
#include <netinet/in.h>

#include "tests/rig/unit/unit.h"
#include "ffr/lib/addr.h"

static void wire_addresses(void **state)
{
	static const char *const good[] = { "tcp:10.0.0.1:7471", "tcp:fd00::1:65535",
					    "tcp:[fd00::1]:1" };
	static const char *const bad[] = {
		"",
		"tcp:",
		"tcp:7471",
		"tcp::7471",
		"tcp:10.0.0.1",
		"tcp:10.0.0.1:",
		"tcp:10.0.0.1:65536",
		"tcp:10.0.0.1:-1",
		"tcp:10.0.0.1:1x",
		"tcp:[]:1",
		"tcp:[10.0.0.1:1",
		"udp:10.0.0.1:1",
		"tcp:10.0.0.1.2:1",
		"tcp:0123456789012345678901234567890123456789012345678:1"
	};
	struct sockaddr_storage sa;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(addr_parse(good[i], &sa), 0);
		assert_int_equal(sa.ss_family, i ? AF_INET6 : AF_INET);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(addr_parse(bad[i], &sa), -EINVAL);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(wire_addresses));
}
