/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* conf.c - reads ffr.conf with libconfuse. The control thread and the parent, at the start and for a reload. */
#include "ffr/conf.h"

#include <arpa/inet.h>
#include <assert.h>
#include <confuse.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffo/base/limits_text.h"
#include "ffo/base/proto.h"
#include "ffr/lib/addr.h"
#include "ffr/peer/peer.h"

#define HOSTNAME_MAX 63

/* libconfuse's error callback knows no argument of ours: one load at a time. */
static struct {
	const char *path; /* a section does not know its file */
	char *buf;
	size_t size;
} errors;

/* Keeps the first message; those that follow are consequences. */
static void on_error(cfg_t *cfg, const char *fmt, va_list ap)
{
	int n;

	if (errors.buf[0])
		return;
	n = snprintf(errors.buf, errors.size, "%s:%d: ", errors.path, cfg->line);
	if (n >= 0 && (size_t)n < errors.size)
		vsnprintf(errors.buf + n, errors.size - (size_t)n, fmt, ap);
}

/* ---- values -------------------------------------------------------------------------------- */

static int valid_path(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);

	if (s[0] == '/' && strlen(s) < PATH_MAX / 2)
		return 0;
	cfg_error(cfg, "%s: \"%s\" is not an absolute path", opt->name, s);
	return -1;
}

static int valid_store(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);

	if (s[0] == '/' || !strcmp(s, ":memory:"))
		return 0;
	cfg_error(cfg, "%s: \"%s\" is neither an absolute path nor :memory:", opt->name, s);
	return -1;
}

static int valid_mode(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);

	if (ffo_mode_parse(s) >= 0)
		return 0;
	cfg_error(cfg, "%s: \"%s\" is none of adaptive, spin, socket", opt->name, s);
	return -1;
}

static int valid_spin(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);

	if (!strcmp(s, "always") || !strcmp(s, "auto"))
		return 0;
	cfg_error(cfg, "%s: \"%s\" is neither always nor auto", opt->name, s);
	return -1;
}

static int valid_level(cfg_t *cfg, cfg_opt_t *opt)
{
	enum log_level level;
	const char *s = cfg_opt_getnstr(opt, 0);

	if (!log_level_parse(s, &level))
		return 0;
	cfg_error(cfg, "%s: \"%s\" is none of error, warning, info, debug", opt->name, s);
	return -1;
}

static int valid_counters(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);

	if (!strcmp(s, "full") || !strcmp(s, "basic"))
		return 0;
	cfg_error(cfg, "%s: \"%s\" is none of full, basic", opt->name, s);
	return -1;
}

static int valid_sandbox(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);

	if (sandbox_mode_parse(s) >= 0)
		return 0;
	cfg_error(cfg, "%s: \"%s\" is none of on, log, off", opt->name, s);
	return -1;
}

#define NIC_NAME_MAX 63

/* Where a NIC's name ends, and its port, or 0 if it says none; -1: that is no name. */
static int nic_parse(const char *s, size_t *len)
{
	const char *colon = strrchr(s, ':');
	char *end;
	long port = 0;

	*len = colon ? (size_t)(colon - s) : strlen(s);
	if (colon) {
		port = strtol(colon + 1, &end, 10);
		if (colon[1] < '0' || colon[1] > '9' || *end || port < 1 || port > UINT8_MAX)
			return -1;
	}
	return !*len || *len > NIC_NAME_MAX || strchr(s, '/') ? -1 : (int)port;
}

static int valid_nic(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
	size_t len;

	if (nic_parse(s, &len) >= 0)
		return 0;
	cfg_error(cfg, "%s: \"%s\" is not a device's name, or DEVICE:PORT", opt->name, s);
	return -1;
}

static int valid_nic_network(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);

	if (*s && strlen(s) < WIRE_NIC_NET_SZ)
		return 0;
	cfg_error(cfg, "%s: not a name of 1 to %u characters", opt->name, WIRE_NIC_NET_SZ - 1);
	return -1;
}

/* "HOST:PORT": is that what the first n characters are? */
static bool host_port_ok(const char *s, size_t n)
{
	char text[256], *colon;

	if (n >= sizeof(text))
		return false;
	memcpy(text, s, n);
	text[n] = '\0';
	colon = strrchr(text, ':');
	return colon && colon > text && addr_port(colon + 1) > 0;
}

/* "HOST:PORT,HOST:PORT/chroot/path", as the ZooKeeper client takes it, and what follows a '?'. */
static bool ensemble_ok(const char *s)
{
	size_t n;

	do {
		n = strcspn(s, ",/?");
		if (!host_port_ok(s, n))
			return false;
		s += n;
	} while (*s == ',' && s++);
	for (; *s && *s != '?'; s += 1 + n) {
		n = strcspn(s + 1, "/?");
		if (!n)
			return false;
	}
	return true;
}

/* With credentials, or with the words that it is to be without: ffo/store/zk/zks.c knows them. */
static bool ensemble_has_auth(const char *s)
{
	return strstr(s, "?auth=") || strstr(s, "&auth=");
}

static int valid_orchestrator(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);

	if (!strcmp(s, "embedded") || (!strncmp(s, "unix:/", 6) && s[6]))
		return 0;
	if ((!strncmp(s, "tcp:", 4) || !strncmp(s, "tls:", 4)) &&
	    host_port_ok(s + 4, strlen(s + 4)))
		return 0;
	if (!strncmp(s, "zookeeper:", 10) && ensemble_ok(s + 10)) {
		if (ensemble_has_auth(s))
			return 0;
		cfg_error(cfg, "%s: \"%s\" has no ?auth=FILE with ZooKeeper's credentials",
			  opt->name, s);
		return -1;
	}
	cfg_error(cfg,
		  "%s: \"%s\" is none of embedded, unix:/PATH, tls:ADDRESS:PORT, tcp:ADDRESS:PORT, "
		  "zookeeper:HOST:PORT,.../PATH?auth=FILE",
		  opt->name, s);
	return -1;
}

static int valid_wire(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);
	struct sockaddr_storage sa;

	if (!addr_parse(s, &sa))
		return 0;
	cfg_error(cfg, "%s: \"%s\" is not tcp:ADDRESS:PORT with a numeric address", opt->name, s);
	return -1;
}

/* Counters tell of containers' doings: they do not leave the host by themselves. */
static bool is_loopback(const struct sockaddr_storage *sa)
{
	const struct sockaddr_in6 *six = (const void *)sa;
	const struct sockaddr_in *four = (const void *)sa;

	return sa->ss_family == AF_INET ? ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET :
					  IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

static int valid_metrics(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);
	struct sockaddr_storage sa;

	if (!strncmp(s, "unix:/", 6) && s[6] && strlen(s) < PATH_MAX / 2)
		return 0;
	if (!addr_parse(s, &sa) && is_loopback(&sa))
		return 0;
	cfg_error(cfg, "%s: \"%s\" is neither unix:/PATH nor tcp:ADDRESS:PORT of the loopback",
		  opt->name, s);
	return -1;
}

static int valid_pool(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1), *slash = strchr(s, '/');
	char addr[INET6_ADDRSTRLEN], *end;
	struct in6_addr a;
	long bits;

	if (slash && slash != s && (size_t)(slash - s) < sizeof(addr)) {
		memcpy(addr, s, (size_t)(slash - s));
		addr[slash - s] = '\0';
		bits = strtol(slash + 1, &end, 10);
		if (end != slash + 1 && !*end && bits >= 0 &&
		    ((inet_pton(AF_INET, addr, &a) == 1 && bits <= 32) ||
		     (inet_pton(AF_INET6, addr, &a) == 1 && bits <= 128)))
			return 0;
	}
	cfg_error(cfg, "%s: \"%s\" is not an address prefix such as 10.77.0.0/16", opt->name, s);
	return -1;
}

/* hostname, cluster */
static int valid_hostname(cfg_t *cfg, cfg_opt_t *opt)
{
	static const char chars[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	const char *s = cfg_opt_getnstr(opt, 0);
	size_t n = strlen(s);

	if (n && n <= HOSTNAME_MAX && strchr(chars, s[0])) {
		for (; *s && (strchr(chars, *s) || strchr("_.-", *s)); s++)
			;
		if (!*s)
			return 0;
	}
	cfg_error(cfg, "%s: not a name of at most %d characters", opt->name, HOSTNAME_MAX);
	return -1;
}

#define RIO_NONE (-1)

static const struct {
	const char *name;
	long min, max;
} ranges[] = { { "nic_port", 1, 255 },
	       { "nic_gid_index", -1, 255 },
	       { "rio_port", 0, 255 },
	       { "fast_threads", 1, FAST_THREADS_MAX },
	       { "fast_cpu", -1, 4095 },
	       { "priority", 1, 99 },
	       { "spin_us", 0, 1000000 },
	       { "fence_after", 0, 86400 },
	       { "quantum", 4096, 1 << 30 },
	       { "memory_workers", 1, 64 },
	       { "latency_share", 1, 100 },
#define X(name, def, max) { "limits|" #name, 1, max },
	       FFR_LIMITS(X)
#undef X
};

static int valid_range(cfg_t *cfg, cfg_opt_t *opt)
{
	/* of a list, the value that was just read */
	long v = cfg_opt_getnint(opt, cfg_opt_size(opt) - 1);

	for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		const char *name = strrchr(ranges[i].name, '|');

		name = name ? name + 1 : ranges[i].name;
		if (strcmp(name, opt->name) || (v >= ranges[i].min && v <= ranges[i].max))
			continue;
		cfg_error(cfg, "%s: %ld is not in %ld..%ld", name, v, ranges[i].min, ranges[i].max);
		return -1;
	}
	return 0;
}

/* Of the section of defaults: 0 or -EINVAL. */
static int default_parse(const char *name, const char *text, uint64_t *value)
{
	for (size_t i = 0; i < FFO_NUM_LIMITS; i++)
		if (!strcmp(ffo_limit[i].name, name))
			return ffo_limit_parse(ffo_limit[i].kind, ffo_limit[i].max, text, value) ||
					       !*value ?
				       -EINVAL :
				       0;
	return -EINVAL;
}

static int valid_default(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);
	uint64_t value;

	if (!default_parse(opt->name, s, &value))
		return 0;
	cfg_error(cfg, "%s: \"%s\" is neither such a limit as ffctl takes nor unlimited", opt->name,
		  s);
	return -1;
}

/* ---- the file ------------------------------------------------------------------------------ */

static cfg_opt_t limit_opts[] = {
#define X(name, def, max) CFG_INT(#name, def, CFGF_NONE),
	FFR_LIMITS(X)
#undef X
		CFG_END()
};

static cfg_opt_t default_opts[] = {
#define X(name, normal, untrusted) CFG_STR(#name, NULL, CFGF_NONE),
	FFO_DEFAULTS(X)
#undef X
		CFG_END()
};

static const struct fast_conf fast_default = FAST_CONF_DEFAULT;

static cfg_t *conf_open(void)
{
	static char hostname[HOSTNAME_MAX + 1];
	cfg_opt_t opts[] = {
		CFG_STR("runtime_dir", CONF_RUNTIME_DEFAULT, CFGF_NONE),
		CFG_STR("admin_socket", NULL, CFGF_NONE),
		CFG_STR("user", NULL, CFGF_NONE),
		CFG_STR("engine_group", NULL, CFGF_NONE),
		CFG_STR("hostname", hostname, CFGF_NONE),
		CFG_STR("log_level", "info", CFGF_NONE),
		CFG_STR("sandbox", "on", CFGF_NONE),
		CFG_STR("mode", "adaptive", CFGF_NONE),
		CFG_STR("spin", "always", CFGF_NONE),
		CFG_INT("fast_threads", 1, CFGF_NONE),
		CFG_INT_LIST("fast_cpu", "{}", CFGF_NONE),
		CFG_INT("priority", fast_default.priority, CFGF_NONE),
		CFG_BOOL("realtime", fast_default.realtime ? cfg_true : cfg_false, CFGF_NONE),
		CFG_INT("spin_us", fast_default.spin_us, CFGF_NONE),
		CFG_INT("quantum", fast_default.quantum, CFGF_NONE),
		CFG_INT("latency_share", fast_default.urgent, CFGF_NONE),
		CFG_INT("memory_workers", fast_default.memory_workers, CFGF_NONE),
		CFG_STR("counters", fast_default.latency ? "full" : "basic", CFGF_NONE),
		CFG_STR_LIST("nic", NULL, CFGF_NONE),
		CFG_INT("nic_port", 1, CFGF_NONE),
		CFG_INT_LIST("nic_gid_index", NULL, CFGF_NONE),
		CFG_BOOL("nic_direct", cfg_false, CFGF_NONE),
		CFG_STR_LIST("nic_network", NULL, CFGF_NONE),
		CFG_INT("rio_port", RIO_NONE, CFGF_NONE),
		CFG_STR("orchestrator", "embedded", CFGF_NONE),
		CFG_STR("store", NULL, CFGF_NONE),
		CFG_STR_LIST("pools", "{10.77.0.0/16, fd77::/64}", CFGF_NONE),
		CFG_STR("cluster", "freeflow", CFGF_NONE),
		CFG_STR("metrics", NULL, CFGF_NONE),
		CFG_STR("wire_listen", NULL, CFGF_NONE),
		CFG_STR("wire_advertise", NULL, CFGF_NONE),
		CFG_BOOL("wire_tls", cfg_true, CFGF_NONE),
		CFG_STR("wire_cert", NULL, CFGF_NONE),
		CFG_STR("wire_key", NULL, CFGF_NONE),
		CFG_STR("wire_ca", NULL, CFGF_NONE),
		CFG_STR("wire_crl", NULL, CFGF_NONE),
		CFG_BOOL("wire_check_address", cfg_true, CFGF_NONE),
		CFG_INT("fence_after", 300, CFGF_NONE),
		CFG_SEC("limits", limit_opts, CFGF_NONE),
		CFG_SEC("defaults", default_opts, CFGF_NONE),
		CFG_END(),
	};
	cfg_t *cfg;

	if (gethostname(hostname, sizeof(hostname) - 1) || !hostname[0])
		strcpy(hostname, "localhost");
	cfg = cfg_init(opts, CFGF_NONE);
	if (!cfg)
		return NULL;
	cfg_set_error_function(cfg, on_error);
	cfg_set_validate_func(cfg, "runtime_dir", valid_path);
	cfg_set_validate_func(cfg, "admin_socket", valid_path);
	cfg_set_validate_func(cfg, "store", valid_store);
	cfg_set_validate_func(cfg, "hostname", valid_hostname);
	cfg_set_validate_func(cfg, "log_level", valid_level);
	cfg_set_validate_func(cfg, "sandbox", valid_sandbox);
	cfg_set_validate_func(cfg, "mode", valid_mode);
	cfg_set_validate_func(cfg, "counters", valid_counters);
	cfg_set_validate_func(cfg, "spin", valid_spin);
	cfg_set_validate_func(cfg, "nic", valid_nic);
	cfg_set_validate_func(cfg, "nic_network", valid_nic_network);
	cfg_set_validate_func(cfg, "orchestrator", valid_orchestrator);
	cfg_set_validate_func(cfg, "pools", valid_pool);
	cfg_set_validate_func(cfg, "cluster", valid_hostname);
	cfg_set_validate_func(cfg, "metrics", valid_metrics);
	cfg_set_validate_func(cfg, "wire_listen", valid_wire);
	cfg_set_validate_func(cfg, "wire_advertise", valid_wire);
	cfg_set_validate_func(cfg, "wire_cert", valid_path);
	cfg_set_validate_func(cfg, "wire_key", valid_path);
	cfg_set_validate_func(cfg, "wire_ca", valid_path);
	cfg_set_validate_func(cfg, "wire_crl", valid_path);
	for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		cfg_set_validate_func(cfg, ranges[i].name, valid_range);
#define X(name, normal, untrusted) cfg_set_validate_func(cfg, "defaults|" #name, valid_default);
	FFO_DEFAULTS(X)
#undef X
	return cfg;
}

int conf_override(char **option, const char *value)
{
	char *s = strdup(value);

	if (!s)
		return -ENOMEM;
	free(*option);
	*option = s;
	return 0;
}

/* A copy of an option without default; NULL where the file does not have it. */
static int take_str(char **option, cfg_t *cfg, const char *name)
{
	const char *s = cfg_getstr(cfg, name);

	return s ? conf_override(option, s) : 0;
}

static int take_wire(struct ffr_conf *c, cfg_t *cfg)
{
	c->wire_tls = cfg_getbool(cfg, "wire_tls");
	c->wire_check_addr = cfg_getbool(cfg, "wire_check_address");
	c->fence_after = (uint32_t)cfg_getint(cfg, "fence_after");
	if (take_str(&c->cluster, cfg, "cluster") ||
	    take_str(&c->wire_listen, cfg, "wire_listen") ||
	    take_str(&c->wire_advertise, cfg, "wire_advertise") ||
	    take_str(&c->wire_cert, cfg, "wire_cert") || take_str(&c->wire_key, cfg, "wire_key") ||
	    take_str(&c->wire_ca, cfg, "wire_ca") || take_str(&c->wire_crl, cfg, "wire_crl"))
		return -ENOMEM;
	return 0;
}

static void take_defaults(struct ffo_limits *l, cfg_t *cfg)
{
	const char *s;

	*l = ffo_limits_default;
#define X(name, normal, untrusted)                                                                 \
	s = cfg_getstr(cfg, #name);                                                                \
	if (s)                                                                                     \
		default_parse(#name, s, &l->name);
	FFO_DEFAULTS(X)
#undef X
}

/* What check_nics() refuses is not read: a list that is too long, or what is said of a NIC that is not there. */
static int take_nics(struct ffr_conf *c, cfg_t *cfg)
{
	uint32_t names = cfg_size(cfg, "nic"), nets = cfg_size(cfg, "nic_network");
	uint32_t gids = cfg_size(cfg, "nic_gid_index");

	c->num_nic_networks = nets;
	c->num_nic_gids = gids;
	c->nics = calloc(names + 1, sizeof(*c->nics));
	if (!c->nics)
		return -ENOMEM;
	for (; c->num_nics < names; c->num_nics++) {
		struct nic_conf *nic = &c->nics[c->num_nics];
		const char *name = cfg_getnstr(cfg, "nic", c->num_nics);
		uint32_t net = nets == 1 ? 0 : c->num_nics, gid = gids == 1 ? 0 : c->num_nics;
		size_t len = 0;
		int port = nic_parse(name, &len);

		*nic = (struct nic_conf){
			.name = strndup(name, len),
			.port = (uint8_t)(port ? port : cfg_getint(cfg, "nic_port")),
			.gid_index = gid < gids ? (int)cfg_getnint(cfg, "nic_gid_index", gid) : -1,
			.direct = cfg_getbool(cfg, "nic_direct"),
			.net = net < nets ? strdup(cfg_getnstr(cfg, "nic_network", net)) : NULL,
			.next = c->num_nics + 1 < names ? nic + 1 : NULL,
		};
		if (!nic->name || (net < nets && !nic->net)) {
			c->num_nics++; /* conf_free() */
			return -ENOMEM;
		}
	}
	return 0;
}

static int conf_take(struct ffr_conf *c, cfg_t *cfg)
{
	cfg_t *limits = cfg_getsec(cfg, "limits");
	uint32_t n = cfg_size(cfg, "pools");

	c->runtime_dir = strdup(cfg_getstr(cfg, "runtime_dir"));
	c->hostname = strdup(cfg_getstr(cfg, "hostname"));
	c->orchestrator = strdup(cfg_getstr(cfg, "orchestrator"));
	c->pools = calloc(n + 1, sizeof(*c->pools));
	if (!c->runtime_dir || !c->hostname || !c->orchestrator || !c->pools ||
	    take_str(&c->admin_socket, cfg, "admin_socket") || take_str(&c->user, cfg, "user") ||
	    take_str(&c->engine_group, cfg, "engine_group") || take_str(&c->store, cfg, "store") ||
	    take_str(&c->metrics, cfg, "metrics") || take_nics(c, cfg) || take_wire(c, cfg))
		return -ENOMEM;
	c->has_rio = cfg_getint(cfg, "rio_port") != RIO_NONE;
	c->rio.port = (uint32_t)cfg_getint(cfg, "rio_port");
	for (; c->num_pools < n; c->num_pools++) {
		c->pools[c->num_pools] = strdup(cfg_getnstr(cfg, "pools", c->num_pools));
		if (!c->pools[c->num_pools])
			return -ENOMEM;
	}
	c->mode = (enum ff_mode)ffo_mode_parse(cfg_getstr(cfg, "mode"));
	log_level_parse(cfg_getstr(cfg, "log_level"), &c->log_level);
	c->sandbox = (enum sandbox_mode)sandbox_mode_parse(cfg_getstr(cfg, "sandbox"));
	c->fast = fast_default;
	c->fast_threads = (uint32_t)cfg_getint(cfg, "fast_threads");
	for (uint32_t i = 0; i < FAST_THREADS_MAX; i++)
		c->fast_cpu[i] = i < cfg_size(cfg, "fast_cpu") ?
					 (int)cfg_getnint(cfg, "fast_cpu", i) :
					 fast_default.cpu;
	c->fast.priority = (int)cfg_getint(cfg, "priority");
	c->fast.realtime = cfg_getbool(cfg, "realtime");
	c->fast.spin_us = (uint32_t)cfg_getint(cfg, "spin_us");
	c->fast.spin_auto = !strcmp(cfg_getstr(cfg, "spin"), "auto");
	c->fast.quantum = (uint32_t)cfg_getint(cfg, "quantum");
	c->fast.urgent = (uint32_t)cfg_getint(cfg, "latency_share");
	c->fast.memory_workers = (uint32_t)cfg_getint(cfg, "memory_workers");
	c->fast.latency = !strcmp(cfg_getstr(cfg, "counters"), "full");
#define X(name, def, max) c->limits.name = (uint32_t)cfg_getint(limits, #name);
	FFR_LIMITS(X)
#undef X
	take_defaults(&c->defaults, cfg_getsec(cfg, "defaults"));
	return 0;
}

/* As libconfuse has it: two slashes within a word, such as unix:/run//a, begin none. */
static bool is_comment(const char *text, const char *s)
{
	if (*s == '/' && s[1] == '/')
		return s == text || strchr(" \t\r\n\"'={}()+,", s[-1]);
	return *s == '#' || (*s == '/' && s[1] == '*');
}

/*
 * Blanks comments out of the text, because libconfuse counts their lines more than once. The line of a quote or a
 * brace that nothing closes, and which it is; 0: there is none. libconfuse takes a section that does not end, and
 * blames an open string on the end of the file.
 */
static int unclosed(char *text, char *what)
{
	int line = 1, opened = 0, depth = 0, section = 0;
	int in = 0; /* a quote: in a string; '#' in a comment; '*' in one of C's */

	for (char *s = text; *s; s++) {
		const char ch = *s;

		if (in == '#' || in == '*') {
			*s = ch == '\n' ? '\n' : ' ';
			if (in == '*' && ch == '*' && s[1] == '/')
				*++s = ' ', in = 0;
			else if (in == '#' && ch == '\n')
				in = 0;
		} else if (in && ch == '\\' && s[1]) {
			line += *++s == '\n';
		} else if (in) {
			in = ch == in ? 0 : in;
		} else if (is_comment(text, s)) {
			in = ch == '/' && s[1] == '*' ? '*' : '#';
			*s = ' ';
			if (ch == '/')
				*++s = ' ';
		} else if (ch == '"' || ch == '\'') {
			in = ch;
			opened = line;
		} else if (ch == '{') {
			section = depth++ ? section : line;
		} else if (ch == '}') {
			depth--;
		}
		line += ch == '\n';
	}
	*what = in == '"' || in == '\'' ? (char)in : '{';
	return *what != '{' ? opened : depth > 0 ? section : 0;
}

static int check_closed(const char *path, char *text, char *err, size_t size)
{
	char what;
	int line = unclosed(text, &what);

	if (line)
		snprintf(err, size, "%s:%d: %c is not closed", path, line, what);
	return line ? -EINVAL : 0;
}

static bool any_addr(const char *wire)
{
	struct sockaddr_storage sa;
	const struct sockaddr_in6 *six = (void *)&sa;
	const struct sockaddr_in *four = (void *)&sa;

	if (addr_parse(wire, &sa))
		return true;
	return sa.ss_family == AF_INET ? four->sin_addr.s_addr == htonl(INADDR_ANY) :
					 IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
}

/* What options have to do with each other. */
static int check_wire(const struct ffr_conf *c, const char *path, char *err, size_t size)
{
	const char *missing = !c->wire_cert ? "wire_cert" :
			      !c->wire_key  ? "wire_key" :
			      !c->wire_ca   ? "wire_ca" :
					      NULL;

	if (!strncmp(c->orchestrator, "tls:", 4) && missing) {
		snprintf(err, size, "%s: orchestrator = \"%s\" needs %s", path, c->orchestrator,
			 missing);
		return -EINVAL;
	}
	if (c->has_rio && !c->wire_listen) {
		snprintf(err, size,
			 "%s: rio_port needs wire_listen, by which routers find each other", path);
		return -EINVAL;
	}
	if (!c->wire_listen)
		return 0;
	if (any_addr(c->wire_advertise ? c->wire_advertise : c->wire_listen)) {
		snprintf(err, size, "%s: wire_advertise: other hosts need an address of this one",
			 path);
		return -EINVAL;
	}
	if (c->wire_tls && missing) {
		snprintf(err, size, "%s: wire_tls needs %s; wire_tls = false does without TLS",
			 path, missing);
		return -EINVAL;
	}
	return 0;
}

static bool is_same_nic(const struct nic_conf *a, const struct nic_conf *b)
{
	return a->port == b->port && !strcmp(a->name, b->name);
}

static int check_nics(const struct ffr_conf *c, const char *path, char *err, size_t size)
{
	if (c->num_nics > HOST_NICS_MAX) {
		snprintf(err, size, "%s: nic: %u of them, and %u may be", path, c->num_nics,
			 HOST_NICS_MAX);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < c->num_nics; i++)
		for (uint32_t j = 0; j < i; j++)
			if (is_same_nic(&c->nics[i], &c->nics[j])) {
				snprintf(err, size, "%s: nic: %s, port %u, is there twice", path,
					 c->nics[i].name, c->nics[i].port);
				return -EINVAL;
			}
	if (c->num_nic_networks > 1 && c->num_nic_networks != c->num_nics) {
		snprintf(err, size, "%s: nic_network: %u names for %u NICs: one, or one for each",
			 path, c->num_nic_networks, c->num_nics);
		return -EINVAL;
	}
	if (c->num_nic_gids > 1 && c->num_nic_gids != c->num_nics) {
		snprintf(err, size, "%s: nic_gid_index: %u for %u NICs: one, or one for each", path,
			 c->num_nic_gids, c->num_nics);
		return -EINVAL;
	}
	return 0;
}

/* Reads fd from where it is to its end into text, of CONF_TEXT_MAX + 2 bytes, and ends text with a NUL. 0 or -errno. */
static int text_read(int fd, char *text)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len, CONF_TEXT_MAX + 1 - len)) > 0)
		if ((len += (size_t)n) > CONF_TEXT_MAX)
			return -EFBIG;
	text[len] = '\0';
	return n < 0 ? -errno : strlen(text) < len ? -EBADMSG : 0;
}

int conf_read(const char *path, bool again, char **text, char *err, size_t size)
{
	const char *file = path ? path : CONF_PATH_DEFAULT;
	int rc = 0, fd = open(file, O_RDONLY | O_CLOEXEC | (again ? O_NONBLOCK : 0));
	struct stat st;

	*text = calloc(1, CONF_TEXT_MAX + 2);
	if (fd < 0)
		rc = -errno;
	else if (!*text)
		rc = -ENOMEM;
	else if (again && (fstat(fd, &st) || !S_ISREG(st.st_mode)))
		rc = -EINVAL; /* a pipe was read to its end at the start */
	else
		rc = text_read(fd, *text);
	if (fd >= 0)
		close(fd);
	if (rc == -ENOENT && !path && !again && *text)
		return 0;
	if (!rc)
		return 0;
	snprintf(err, size, "%s: %s", file,
		 rc == -EBADMSG ? "a zero byte is in it: it is no text" :
		 rc == -EINVAL	? "it is not a file that can be read again" :
				  strerror(-rc));
	free(*text);
	*text = NULL;
	return rc;
}

int conf_parse(struct ffr_conf *c, const char *path, char *text, char *err, size_t size)
{
	cfg_t *cfg;
	int rc;

	*c = (struct ffr_conf){ 0 };
	err[0] = '\0';
	errors.path = path ? path : CONF_PATH_DEFAULT;
	errors.buf = err;
	errors.size = size;
	cfg = conf_open();
	rc = cfg ? check_closed(errors.path, text, err, size) : -ENOMEM;
	if (!rc && cfg_parse_buf(cfg, text) != CFG_SUCCESS)
		rc = err[0] ? -EINVAL : -ENOMEM;
	if (!rc)
		rc = conf_take(c, cfg);
	if (rc == -ENOMEM)
		snprintf(err, size, "out of memory");
	cfg_free(cfg);
	if (!rc)
		rc = check_wire(c, errors.path, err, size);
	if (!rc)
		rc = check_nics(c, errors.path, err, size);
	if (rc)
		conf_free(c);
	return rc;
}

int conf_load(struct ffr_conf *c, const char *path, char *err, size_t size)
{
	char *text;
	int rc = conf_read(path, false, &text, err, size);

	*c = (struct ffr_conf){ 0 };
	if (!rc)
		rc = conf_parse(c, path, text, err, size);
	free(text);
	return rc;
}

bool conf_is_alone(const struct ffr_conf *c)
{
	return !c->wire_listen && !c->num_nics && !c->has_rio &&
	       (!strcmp(c->orchestrator, "embedded") || !strncmp(c->orchestrator, "unix:", 5)) &&
	       (!c->metrics || !strncmp(c->metrics, "unix:", 5));
}

void conf_free(struct ffr_conf *c)
{
	for (uint32_t i = 0; i < c->num_pools; i++)
		free(c->pools[i]);
	free(c->pools);
	free(c->runtime_dir);
	free(c->admin_socket);
	free(c->user);
	free(c->engine_group);
	free(c->hostname);
	for (uint32_t i = 0; i < c->num_nics; i++) {
		free((char *)c->nics[i].name);
		free((char *)c->nics[i].net);
	}
	free(c->nics);
	free(c->orchestrator);
	free(c->store);
	free(c->cluster);
	free(c->metrics);
	free(c->wire_listen);
	free(c->wire_advertise);
	free(c->wire_cert);
	free(c->wire_key);
	free(c->wire_ca);
	free(c->wire_crl);
	*c = (struct ffr_conf){ 0 };
}

struct tls_files conf_tls_files(const struct ffr_conf *c)
{
	return (struct tls_files){
		.cert = c->wire_cert, .key = c->wire_key, .ca = c->wire_ca, .crl = c->wire_crl
	};
}
