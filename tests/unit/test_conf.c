/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_conf.c - ffr.conf: defaults, every option, what is refused, the example. build: ffr/lib/log.c */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/conf.c"

static char path[] = "/tmp/test_conf.XXXXXX";
static char err[512];

static int load(struct ffr_conf *c, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return conf_load(c, path, err, sizeof(err));
}

/* Of the options that have defaults. */
static void assert_defaults(const struct ffr_conf *conf)
{
	const struct fast_conf fast = FAST_CONF_DEFAULT;
	const struct ffr_conf c = *conf;

	assert_string_equal(c.runtime_dir, "/run/freeflow");
	assert_int_equal(c.num_nics, 0);
	assert_false(c.has_rio);
	assert_string_equal(c.orchestrator, "embedded");
	assert_string_equal(c.cluster, "freeflow");
	assert_true(c.wire_tls);
	assert_true(c.wire_check_addr);
	assert_int_equal(c.fence_after, 300);
	assert_true(strlen(c.hostname) > 0);
	assert_int_equal(c.mode, FF_MODE_ADAPTIVE);
	assert_int_equal(c.sandbox, SANDBOX_ON);
	assert_int_equal(c.log_level, LOG_LEVEL_INFO);
	assert_int_equal(c.num_pools, 2);
	assert_string_equal(c.pools[0], "10.77.0.0/16");
	assert_string_equal(c.pools[1], "fd77::/64");
	assert_int_equal(c.fast_threads, 1);
	assert_int_equal(c.fast_cpu[0], fast.cpu);
	assert_int_equal(c.fast.priority, fast.priority);
	assert_int_equal(c.fast.realtime, fast.realtime);
	assert_int_equal(c.fast.spin_us, fast.spin_us);
	assert_false(c.fast.spin_auto);
	assert_int_equal(c.fast.quantum, fast.quantum);
	assert_int_equal(c.fast.urgent, fast.urgent);
	assert_int_equal(c.fast.memory_workers, fast.memory_workers);
	assert_int_equal(c.fast.budget, fast.budget);
	assert_true(c.fast.latency);
#define X(name, def, max) assert_int_equal(c.limits.name, def);
	FFR_LIMITS(X)
#undef X
#define X(name, normal, untrusted)                                                                 \
	assert_int_equal(c.defaults.name, normal);                                                 \
	assert_true(c.defaults.name);
	FFO_DEFAULTS(X)
#undef X
	assert_int_equal(c.defaults.tx_rate, 0);
}

static void defaults(void **state)
{
	struct ffr_conf c;

	(void)state;
	assert_int_equal(load(&c, ""), 0);
	assert_defaults(&c);
	assert_null(c.admin_socket);
	assert_null(c.engine_group);
	assert_null(c.store);
	assert_int_equal(c.num_nics, 0);
	assert_null(c.wire_listen);
	assert_null(c.metrics);
	assert_null(c.wire_advertise);
	conf_free(&c);
}

/* "#name = value" without the '#', where take() says so. Behind a section's line: that section's. */
static void uncommented(char *text, size_t size, bool (*take)(cfg_opt_t *opt), cfg_t *all)
{
	FILE *f = fopen("deploy/ffr.conf", "re");
	cfg_t *sec = all;
	char line[256], name[64], mark;
	size_t n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		cfg_opt_t *opt;
		bool option = false;

		if (sscanf(line, "%63[a-z] {", name) == 1 && strchr(line, '{'))
			sec = cfg_getsec(all, name);
		if (sscanf(line, "#%*1[\t]%63[a-z_] %c", name, &mark) == 2 ||
		    sscanf(line, "#%63[a-z_] %c", name, &mark) == 2)
			option = mark == '=';
		if (option) {
			opt = cfg_getopt(sec, name);
			if (!opt)
				fail_msg("deploy/ffr.conf: there is no option %s", name);
			opt->flags |= 1 << 30; /* seen */
		}
		n += (size_t)snprintf(text + n, size - n, "%s",
				      line + (option && take(cfg_getopt(sec, name))));
		assert_true(n < size);
	}
	fclose(f);
}

static bool has_default(cfg_opt_t *opt)
{
	if (!strcmp(opt->name, "rio_port"))
		return false;
	return opt->type != CFGT_STR || cfg_opt_getnstr(opt, 0);
}

static bool any(cfg_opt_t *opt)
{
	(void)opt;
	return true;
}

static void assert_seen(const cfg_t *sec)
{
	for (const cfg_opt_t *opt = sec->opts; opt->name; opt++)
		if (opt->type != CFGT_SEC && !(opt->flags & 1 << 30) && strcmp(opt->name, "store"))
			fail_msg("deploy/ffr.conf does not have %s", opt->name);
}

/* deploy/ffr.conf: as it is nothing but the store is set; it has every option, and each one's default. */
static void the_example(void **state)
{
	static char text[32768];
	struct ffr_conf c;
	cfg_t *all;

	(void)state;
	assert_int_equal(conf_load(&c, "deploy/ffr.conf", err, sizeof(err)), 0);
	assert_defaults(&c);
	assert_string_equal(c.store, "/var/lib/freeflow/router.db");
	assert_null(c.wire_listen);
	assert_null(c.wire_cert);
	assert_null(c.metrics);
	conf_free(&c);

	all = conf_open();
	assert_non_null(all);
	uncommented(text, sizeof(text), has_default, all);
	assert_seen(all);
	assert_seen(cfg_getsec(all, "limits"));
	assert_seen(cfg_getsec(all, "defaults"));
	assert_int_equal(load(&c, text), 0);
	assert_defaults(&c);
	conf_free(&c);
	uncommented(text, sizeof(text), any, all);
	if (load(&c, text))
		fail_msg("deploy/ffr.conf: %s", err);
	assert_string_equal(c.wire_listen, "tcp:192.0.2.7:7471");
	conf_free(&c);
	cfg_free(all);
}

static void every_option(void **state)
{
	static const char text[] = "runtime_dir = /srv/ff\n"
				   "admin_socket = \"/srv/admin\"\n"
				   "engine_group = podman\n"
				   "hostname = h0.example\n"
				   "log_level = debug\n"
				   "mode = socket\n"
				   "sandbox = log\n"
				   "fast_threads = 3\n"
				   "fast_cpu = {3, -1}\n"
				   "priority = 7\n"
				   "realtime = false\n"
				   "spin_us = 0\n"
				   "spin = auto\n"
				   "quantum = 4096\n"
				   "memory_workers = 2\n"
				   "latency_share = 20\n"
				   "counters = basic\n"
				   "metrics = \"tcp:[::1]:9790\"\n"
				   "nic = mlx5_0\n"
				   "nic_port = 2\n"
				   "nic_gid_index = 3\n"
				   "nic_direct = true\n"
				   "rio_port = 3\n"
				   "orchestrator = \"tcp:10.0.0.1:7000\"\n"
				   "store = /var/lib/ff.db\n"
				   "pools = {\"10.1.0.0/24\", \"10.2.0.0/24\", \"fd00::/8\"}\n"
				   "cluster = lab-1\n"
				   "wire_listen = \"tcp:0.0.0.0:7471\"\n"
				   "wire_advertise = \"tcp:10.0.0.1:7471\"\n"
				   "wire_tls = true\n"
				   "wire_cert = /etc/ff/h0.pem\n"
				   "wire_key = /etc/ff/h0.key\n"
				   "wire_ca = /etc/ff/ca.pem\n"
				   "wire_crl = /etc/ff/crl.pem\n"
				   "wire_check_address = false\n"
				   "fence_after = 60\n"
				   "limits {\n"
#define X(name, def, max) "  " #name " = 7\n"
		FFR_LIMITS(X)
#undef X
			"}\n"
			"defaults {\n  max_qp = 1.5k\n  max_rings = \"64MB\"\n"
			"  max_mr = unlimited\n  max_cpu = 0.5\n}\n";
	struct ffr_conf c;

	(void)state;
	assert_int_equal(load(&c, text), 0);
	assert_string_equal(c.runtime_dir, "/srv/ff");
	assert_string_equal(c.admin_socket, "/srv/admin");
	assert_string_equal(c.engine_group, "podman");
	assert_string_equal(c.hostname, "h0.example");
	assert_int_equal(c.log_level, LOG_LEVEL_DEBUG);
	assert_int_equal(c.mode, FF_MODE_SOCKET);
	assert_false(c.fast.latency);
	assert_string_equal(c.metrics, "tcp:[::1]:9790");
	assert_int_equal(c.fast_threads, 3);
	assert_int_equal(c.fast_cpu[0], 3);
	assert_int_equal(c.fast_cpu[1], -1);
	assert_int_equal(c.fast_cpu[2], -1);
	assert_int_equal(c.fast.priority, 7);
	assert_false(c.fast.realtime);
	assert_int_equal(c.fast.spin_us, 0);
	assert_true(c.fast.spin_auto);
	assert_int_equal(c.fast.quantum, 4096);
	assert_int_equal(c.fast.urgent, 20);
	assert_int_equal(c.fast.memory_workers, 2);
	assert_int_equal(c.num_nics, 1);
	assert_string_equal(c.nics[0].name, "mlx5_0");
	assert_int_equal(c.nics[0].port, 2);
	assert_int_equal(c.nics[0].gid_index, 3);
	assert_true(c.nics[0].direct);
	assert_true(c.has_rio);
	assert_int_equal(c.rio.port, 3);
	assert_string_equal(c.orchestrator, "tcp:10.0.0.1:7000");
	assert_string_equal(c.store, "/var/lib/ff.db");
	assert_int_equal(c.num_pools, 3);
	assert_string_equal(c.pools[2], "fd00::/8");
	assert_string_equal(c.cluster, "lab-1");
	assert_string_equal(c.wire_listen, "tcp:0.0.0.0:7471");
	assert_string_equal(c.wire_advertise, "tcp:10.0.0.1:7471");
	assert_true(c.wire_tls);
	assert_string_equal(c.wire_cert, "/etc/ff/h0.pem");
	assert_string_equal(c.wire_key, "/etc/ff/h0.key");
	assert_string_equal(c.wire_ca, "/etc/ff/ca.pem");
	assert_string_equal(c.wire_crl, "/etc/ff/crl.pem");
	assert_false(c.wire_check_addr);
	assert_int_equal(c.fence_after, 60);
#define X(name, def, max) assert_int_equal(c.limits.name, 7);
	FFR_LIMITS(X)
#undef X
	assert_int_equal(c.defaults.max_qp, 1500);
	assert_int_equal(c.defaults.max_rings, 64 << 20);
	assert_int_equal(c.defaults.max_mr, FFO_UNLIMITED);
	assert_int_equal(c.defaults.max_cpu, 500);
	assert_int_equal(c.defaults.max_session, 512);
	conf_free(&c);
}

/* Each is refused with its file, its line, and a word that tells what is wrong. */
/* What looks like a comment within a word or in quotes is none. */
static void comments(void **state)
{
	struct ffr_conf c;

	(void)state;
	assert_int_equal(load(&c, "store = /a//c# d\nuser = \"e#f\"// g\n/* h\n */ hostname = i"),
			 0);
	assert_string_equal(c.store, "/a//c");
	assert_string_equal(c.user, "e#f");
	assert_string_equal(c.hostname, "i");
	conf_free(&c);
	assert_int_equal(load(&c, ""), 0);
	conf_free(&c);
}

static void bad_files_are_refused(void **state)
{
	static const struct {
		const char *text;
		int line;
		const char *word;
	} bad[] = {
		{ "\nspeed = 3\n", 2, "speed" },
		{ "mode = fast\n", 1, "adaptive" },
		{ "mode =\n", 2, "" },
		{ "\n\nfast_cpu = x\n", 3, "fast_cpu" },
		{ "fast_cpu = -2\n", 1, "fast_cpu" },
		{ "fast_cpu = {1, -2}\n", 1, "fast_cpu" },
		{ "fast_threads = 0\n", 1, "fast_threads" },
		{ "fast_threads = 33\n", 1, "fast_threads" },
		{ "priority = 0\n", 1, "priority" },
		{ "fast_cpu = 99999999999999999999\n", 1, "fast_cpu" },
		{ "realtime = maybe\n", 1, "realtime" },
		{ "spin_us = -1\n", 1, "spin_us" },
		{ "spin = maybe\n", 1, "spin" },
		{ "quantum = 1\n", 1, "quantum" },
		{ "memory_workers = 0\n", 1, "memory_workers" },
		{ "latency_share = 0\n", 1, "latency_share" },
		{ "counters = none\n", 1, "basic" },
		{ "metrics = \"tcp:0.0.0.0:9790\"\n", 1, "loopback" },
		{ "metrics = \"tcp:10.0.0.1:9790\"\n", 1, "loopback" },
		{ "metrics = \"tcp:[::]:9790\"\n", 1, "loopback" },
		{ "metrics = \"tcp:127.0.0.1\"\n", 1, "loopback" },
		{ "metrics = \"unix:run\"\n", 1, "loopback" },
		{ "backend = verbs\n", 1, "no such option 'backend'" },
		{ "rio_port = -1\n", 1, "rio_port" },
		{ "rio_port = 256\n", 1, "rio_port" },
		{ "nic_port = 0\n", 1, "nic_port" },
		{ "nic_port = 256\n", 1, "nic_port" },
		{ "nic_gid_index = -2\n", 1, "nic_gid_index" },
		{ "nic_gid_index = 256\n", 1, "nic_gid_index" },
		{ "nic_gid_index = {0, 256}\n", 1, "nic_gid_index" },
		{ "nic_direct = perhaps\n", 1, "nic_direct" },
		{ "nic = \"mlx5_0:0\"\n", 1, "DEVICE:PORT" },
		{ "nic = \"mlx5_0:256\"\n", 1, "DEVICE:PORT" },
		{ "nic = \"mlx5_0:\"\n", 1, "DEVICE:PORT" },
		{ "nic = \"mlx5_0:1x\"\n", 1, "DEVICE:PORT" },
		{ "nic = \"mlx5_0: 1\"\n", 1, "DEVICE:PORT" },
		{ "nic = \":1\"\n", 1, "DEVICE:PORT" },
		{ "nic = \"\"\n", 1, "DEVICE:PORT" },
		{ "nic = {a, \"../b\"}\n", 1, "DEVICE:PORT" },
		{ "nic_network = {a, \"\"}\n", 1, "nic_network" },
		{ "nic_network = 0123456789abcdef\n", 1, "nic_network" },
		{ "orchestrator = tcp:host\n", 1, "embedded" },
		{ "orchestrator = \"tcp:host:0\"\n", 1, "embedded" },
		{ "orchestrator = \"tcp::80\"\n", 1, "embedded" },
		{ "orchestrator = \"tls:host\"\n", 1, "tls:ADDRESS:PORT" },
		{ "orchestrator = unix:\n", 1, "embedded" },
		{ "orchestrator = \"zookeeper:\"\n", 1, "zookeeper" },
		{ "orchestrator = \"zookeeper:a\"\n", 1, "zookeeper" },
		{ "orchestrator = \"zookeeper:a:1,\"\n", 1, "zookeeper" },
		{ "orchestrator = \"zookeeper:a:1,b\"\n", 1, "zookeeper" },
		{ "orchestrator = \"zookeeper:a:1/\"\n", 1, "zookeeper" },
		{ "orchestrator = \"zookeeper:a:1/x//y\"\n", 1, "zookeeper" },
		{ "orchestrator = \"zookeeper:10.0.0.1:2181\"\n", 1, "no ?auth=FILE" },
		{ "orchestrator = \"zookeeper:10.0.0.1:2181/x?timeout=5000\"\n", 1,
		  "no ?auth=FILE" },
		{ "orchestrator = \"zookeeper:10.0.0.1:0?auth=/x\"\n", 1, "zookeeper" },
		{ "store = ffo.db\n", 1, "store" },
		{ "runtime_dir = run\n", 1, "absolute" },
		{ "admin_socket = \"\"\n", 1, "absolute" },
		{ "hostname = \"-x\"\n", 1, "hostname" },
		{ "hostname = \"a b\"\n", 1, "hostname" },
		{ "log_level = loud\n", 1, "debug" },
		{ "pools = {\"10.0.0.0\"}\n", 1, "pools" },
		{ "pools = {\"10.0.0.0/8\", \"10.0.0.0/33\"}\n", 1, "33" },
		{ "pools = {\"fd00::/129\"}\n", 1, "129" },
		{ "cluster = \"a b\"\n", 1, "cluster" },
		{ "wire_listen = \"10.0.0.1:7471\"\n", 1, "tcp:ADDRESS:PORT" },
		{ "wire_listen = \"tcp:node1:7471\"\n", 1, "numeric" },
		{ "wire_listen = \"tcp:10.0.0.1:0\"\n", 1, "wire_listen" },
		{ "wire_listen = \"tcp:10.0.0.1: 1\"\n", 1, "wire_listen" },
		{ "wire_advertise = \"tcp:[fd00::1:7471\"\n", 1, "wire_advertise" },
		{ "wire_cert = h0.pem\n", 1, "absolute" },
		{ "wire_key = h0.key\n", 1, "absolute" },
		{ "wire_ca = ca.pem\n", 1, "absolute" },
		{ "wire_crl = crl.pem\n", 1, "absolute" },
		{ "wire_tls = perhaps\n", 1, "wire_tls" },
		{ "limits {\n max_qp = 0\n}\n", 2, "max_qp" },
		{ "limits {\n max_qp = 32769\n}\n", 2, "32768" },
		{ "limits {\n max_mr = 65536\n}\n", 2, "65535" },
		{ "limits {\n max_cows = 1\n}\n", 2, "max_cows" },
		{ "defaults {\n max_qp = many\n}\n", 2, "max_qp" },
		{ "defaults {\n max_qp = none\n}\n", 2, "max_qp" },
		{ "defaults {\n max_rings = 0\n}\n", 2, "max_rings" },
		{ "defaults {\n tx_rate = 1Gbit\n}\n", 2, "tx_rate" },
		{ "# one\n  # two\n// three\nspeed = 3\n", 4, "speed" },
		{ "/* one\n two */ mode = spin # three\nspeed = 3\n", 3, "speed" },
		{ "store = \"/a#b//c/*d\"\nhostname = '\\'#'\nspeed = 3\n", 2, "hostname" },
		{ "# it's\nmode = \"spin\n\n", 2, "\" is not closed" },
		{ "mode = 'spin\n", 1, "' is not closed" },
		{ "\nlimits {\n max_qp = 1\n\n", 2, "{ is not closed" },
		{ "pools = {\"10.0.0.0/8\"\n", 1, "{ is not closed" },
		{ "mode = \"a\\\"\n", 1, "is not closed" },
	};
	struct ffr_conf c;
	char want[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(load(&c, bad[i].text), -EINVAL);
		snprintf(want, sizeof(want), "%s:%d: ", path, bad[i].line);
		if (strncmp(err, want, strlen(want)) || !strstr(err + strlen(want), bad[i].word))
			fail_msg("\"%s\" gives \"%s\"", bad[i].text, err);
		assert_null(strchr(err, '\n'));
	}
}

static void nics_are_taken(void **state)
{
	struct ffr_conf c;

	(void)state;
	assert_int_equal(load(&c, "nic = {\"mlx5_0\", \"mlx5_0:2\", mlx5_1}\nnic_port = 3\n"
				  "nic_network = {a, b, a}\nnic_direct = true\n"),
			 0);
	assert_int_equal(c.num_nics, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_string_equal(c.nics[i].name, i < 2 ? "mlx5_0" : "mlx5_1");
		assert_int_equal(c.nics[i].port, i == 1 ? 2 : 3);
		assert_string_equal(c.nics[i].net, i == 1 ? "b" : "a");
		assert_true(c.nics[i].direct);
		assert_ptr_equal(c.nics[i].next, i < 2 ? &c.nics[i + 1] : NULL);
	}
	conf_free(&c);

	assert_int_equal(load(&c, "nic = {a, b}\nnic_network = n\n"), 0); /* one for all */
	assert_string_equal(c.nics[0].net, "n");
	assert_string_equal(c.nics[1].net, "n");
	assert_int_equal(c.nics[0].gid_index, -1);
	assert_int_equal(c.nics[1].gid_index, -1);
	conf_free(&c);

	assert_int_equal(load(&c, "nic = {a, b, c}\nnic_gid_index = {3, -1, 255}\n"), 0);
	assert_int_equal(c.nics[0].gid_index, 3);
	assert_int_equal(c.nics[1].gid_index, -1);
	assert_int_equal(c.nics[2].gid_index, 255);
	conf_free(&c);

	assert_int_equal(load(&c, "nic = {a, b}\nnic_gid_index = 3\n"), 0); /* one for all */
	assert_int_equal(c.nics[0].gid_index, 3);
	assert_int_equal(c.nics[1].gid_index, 3);
	conf_free(&c);

	assert_int_equal(load(&c, "nic = \"a:7\"\n"), 0);
	assert_int_equal(c.num_nics, 1);
	assert_string_equal(c.nics[0].name, "a");
	assert_int_equal(c.nics[0].port, 7);
	assert_null(c.nics[0].net);
	conf_free(&c);
}

/* What is wrong with several options, or with all of a list. */
static void nics_that_do_not_fit(void **state)
{
	static const struct {
		const char *text, *word;
	} bad[] = {
		{ "nic = {a, b, a}\n", "a, port 1, is there twice" },
		{ "nic = {a, \"a:1\"}\n", "twice" },
		{ "nic = {\"a:2\", a}\nnic_port = 2\n", "port 2, is there twice" },
		{ "nic = {a, b, c, d, e, f, g, h, i}\n", "9 of them, and 8" },
		{ "nic = {a, b, c}\nnic_network = {x, y}\n", "2 names for 3 NICs" },
		{ "nic_network = {x, y}\n", "2 names for 0 NICs" },
		{ "nic = {a, b, c}\nnic_gid_index = {1, 2}\n", "2 for 3 NICs" },
		{ "nic = {a, b}\nnic_gid_index = {1, 2, 3}\n", "3 for 2 NICs" },
		{ "nic_gid_index = {1, 2}\n", "2 for 0 NICs" },
	};
	struct ffr_conf c;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(load(&c, bad[i].text), -EINVAL);
		assert_non_null(strstr(err, bad[i].word));
	}
}

static void ensembles_are_taken(void **state)
{
	static const char *const good[] = {
		"zookeeper:10.0.0.1:2181?auth=/etc/zk",
		"zookeeper:a:1,b:2,[fd00::1]:3?timeout=5000&auth=/etc/zk",
		"zookeeper:a:1,b:65535/free/flow?auth=/etc/zk",
	};
	struct ffr_conf c;
	char text[128];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), "orchestrator = \"%s\"\n", good[i]);
		assert_int_equal(load(&c, text), 0);
		assert_string_equal(c.orchestrator, good[i]);
		conf_free(&c);
	}
}

/* With the three files, whatever the routers do among themselves. */
static void orchestrator_by_tls(void **state)
{
	static const char *const options[] = { "wire_cert", "wire_key", "wire_ca" };
	static const char first[] = "orchestrator = \"tls:10.0.0.1:7470\"\nwire_tls = false\n";
	struct ffr_conf c;
	char text[256];

	(void)state;
	snprintf(text, sizeof(text), "%s", first);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(load(&c, text), -EINVAL);
		assert_non_null(strstr(err, "orchestrator = \"tls:10.0.0.1:7470\" needs"));
		assert_non_null(strstr(err, options[i]));
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s = /x\n", options[i]);
	}
	assert_int_equal(load(&c, text), 0);
	assert_string_equal(c.orchestrator, "tls:10.0.0.1:7470");
	conf_free(&c);
}

/* What is wrong only together with another option has no line. */
static void a_wire_needs_all_of_it(void **state)
{
#define LISTEN "wire_listen = \"tcp:10.0.0.1:7471\"\n"
	static const struct {
		const char *text, *word;
	} bad[] = {
		{ LISTEN, "wire_cert" },
		{ LISTEN "wire_cert = /c\n", "wire_key" },
		{ LISTEN "wire_cert = /c\nwire_key = /k\n", "wire_ca" },
		{ "wire_tls = false\nwire_listen = \"tcp:0.0.0.0:1\"\n", "wire_advertise" },
		{ "wire_tls = false\nwire_listen = \"tcp:[::]:1\"\n", "wire_advertise" },
		{ "wire_tls = false\n" LISTEN "wire_advertise = \"tcp:0.0.0.0:1\"\n",
		  "wire_advertise" },
		{ "rio_port = 0\n", "wire_listen" },
	};
	struct ffr_conf c;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(load(&c, bad[i].text), -EINVAL);
		if (strncmp(err, path, strlen(path)) || !strstr(err, bad[i].word))
			fail_msg("\"%s\" gives \"%s\"", bad[i].text, err);
	}
	assert_int_equal(load(&c, LISTEN "wire_tls = false\nrio_port = 0\n"), 0);
	conf_free(&c);
	assert_int_equal(load(&c, LISTEN "wire_cert = /c\nwire_key = /k\nwire_ca = /a\n"), 0);
	conf_free(&c);
#undef LISTEN
}

static void comments_may_have_quotes(void **state)
{
	struct ffr_conf c;

	(void)state;
	assert_int_equal(load(&c, "# it's {\n// it's\n/* it's\n { */ mode = spin # \"\n"), 0);
	assert_int_equal(c.mode, FF_MODE_SPIN);
	conf_free(&c);
}

static void a_missing_file(void **state)
{
	struct ffr_conf c;

	(void)state;
	assert_int_equal(conf_load(&c, "/nonexistent/ffr.conf", err, sizeof(err)), -ENOENT);
	assert_string_equal(err, "/nonexistent/ffr.conf: No such file or directory");
}

static int read_bytes(const void *bytes, size_t len, bool again)
{
	FILE *f = fopen(path, "w");
	char *text;
	int rc;

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	fclose(f);
	rc = conf_read(path, again, &text, err, sizeof(err));
	assert_true(rc ? !text : strlen(text) == len);
	free(text);
	return rc;
}

static void what_is_no_text(void **state)
{
	static char bytes[CONF_TEXT_MAX + 1];

	(void)state;
	memset(bytes, '#', sizeof(bytes));
	assert_int_equal(read_bytes(bytes, 0, true), 0);
	assert_int_equal(read_bytes(bytes, CONF_TEXT_MAX, true), 0);
	assert_int_equal(read_bytes(bytes, CONF_TEXT_MAX + 1, true), -EFBIG);
	bytes[7] = '\0';
	assert_int_equal(read_bytes(bytes, 8, false), -EBADMSG);
	assert_non_null(strstr(err, "zero byte"));
}

/* A pipe, as of <(...), is empty the second time; and one without a writer would keep the parent waiting. */
static void what_cannot_be_read_again(void **state)
{
	char *text;

	(void)state;
	unlink(path);
	assert_int_equal(conf_read(path, true, &text, err, sizeof(err)), -ENOENT);
	assert_null(text);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(conf_read(path, true, &text, err, sizeof(err)), -EINVAL);
	assert_null(text);
	assert_int_equal(conf_read("/", true, &text, err, sizeof(err)), -EINVAL);
	assert_int_equal(conf_read("/", false, &text, err, sizeof(err)), -EISDIR);
	unlink(path);
}

static void the_command_line_goes_first(void **state)
{
	struct ffr_conf c;

	(void)state;
	assert_int_equal(load(&c, "runtime_dir = /a\n"), 0);
	assert_int_equal(conf_override(&c.runtime_dir, "/b"), 0);
	assert_int_equal(conf_override(&c.admin_socket, "/c"), 0);
	assert_string_equal(c.runtime_dir, "/b");
	assert_string_equal(c.admin_socket, "/c");
	conf_free(&c);
}

static void log_lines_are_limited(void **state)
{
	struct log_limit l = { 0 };
	uint32_t dropped, written = 0;
	enum log_level level;

	(void)state;
	for (int i = 0; i < 1000; i++)
		written += log_allowed(&l, 100, &dropped);
	assert_int_equal(written, LOG_BURST);
	assert_false(log_allowed(&l, 100 + LOG_WINDOW - 1, &dropped));
	assert_true(log_allowed(&l, 100 + LOG_WINDOW, &dropped));
	assert_int_equal(dropped, 1000 - LOG_BURST + 1);
	assert_true(log_allowed(&l, 100 + LOG_WINDOW, &dropped));
	assert_int_equal(dropped, 0);
	assert_int_equal(log_level_parse("warning", &level), 0);
	assert_int_equal(level, LOG_LEVEL_WARN);
	assert_int_equal(log_level_parse("warns", &level), -EINVAL);
}

static int file_create(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int file_remove(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	return UNIT_RUN_GROUP(
		file_create, file_remove, cmocka_unit_test(defaults), cmocka_unit_test(the_example),
		cmocka_unit_test(every_option), cmocka_unit_test(comments),
		cmocka_unit_test(bad_files_are_refused), cmocka_unit_test(orchestrator_by_tls),
		cmocka_unit_test(nics_are_taken), cmocka_unit_test(nics_that_do_not_fit),
		cmocka_unit_test(ensembles_are_taken), cmocka_unit_test(a_wire_needs_all_of_it),
		cmocka_unit_test(comments_may_have_quotes), cmocka_unit_test(a_missing_file),
		cmocka_unit_test(what_is_no_text), cmocka_unit_test(what_cannot_be_read_again),
		cmocka_unit_test(the_command_line_goes_first),
		cmocka_unit_test(log_lines_are_limited));
}
