/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * main.c - the daemon ffo: options, signals, the loop. See server.c for what it serves, ffo.8 for
 * its use. One thread. SIGHUP is blocked until the loop waits for it, and so ends nothing at any time.
 *
 * Tests: system/reload.sh, system/systemd.sh, system/bad_options.sh
 */
#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "ffo/base/address.h"
#include "ffo/base/alloc.h"
#include "ffo/server/ffo.h"
#include "ffo/base/proto.h"
#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"
#include "ffr/lib/sd.h"
#include "ffr/lib/version.h"

#define STORE_DEFAULT "/var/lib/freeflow/ffo.db"
#define MAX_LISTEN    16
#define MAX_POOLS     256
#define ARRAY_LEN(a)  (sizeof(a) / sizeof((a)[0]))

/* X(long option, its short form, its argument or NULL, help) */
#define OPTIONS(X)                                                                                 \
	X("store", 's', "STORE",                                                                   \
	  "SQLite file of the state, :memory:, or zookeeper:SERVERS[/ROOT]\n\t\t\t(" STORE_DEFAULT \
	  ")")                                                                                     \
	X("listen", 'l', "ADDRESS",                                                                \
	  "unix:/PATH, tls:ADDRESS:PORT or tcp:ADDRESS:PORT (neither\n"                            \
	  "\t\t\tencrypted nor authenticated); may be repeated\n"                                  \
	  "\t\t\t(" FFO_SOCKET_DEFAULT ")")                                                        \
	X("cert", 'c', "FILE", "PEM: the certificate for tls: addresses")                          \
	X("key", 'k', "FILE", "PEM: its private key")                                              \
	X("ca", 'a', "FILE", "PEM: the authorities that sign for hosts")                           \
	X("crl", 'r', "FILE", "PEM: which certificates are revoked, a list of each authority")     \
	X("pool4", '4', "[TENANT=]PREFIX", "IPv4 addresses to give out (" ALLOC_POOL4_DEFAULT ")") \
	X("pool6", '6', "[TENANT=]PREFIX",                                                         \
	  "IPv6 addresses to give out\n\t\t\t(" ALLOC_POOL6_DEFAULT ")")                           \
	X("log-level", 'L', "LEVEL", "error, warning, info or debug (info)")                       \
	X("sandbox", 'b', "MODE", "on, log or off (on)")                                           \
	X("version", 'V', NULL, "print the version and exit")                                      \
	X("help", 'h', NULL, "print this and exit")

static const struct option long_options[] = {
#define X(name, letter, arg, help) { name, arg ? required_argument : no_argument, NULL, letter },
	OPTIONS(X)
#undef X
		{ 0 }
};

struct options {
	const char *store;
	const char *listen[MAX_LISTEN];
	size_t num_listen;
	const char *cert, *key, *ca, *crl;
	const char *pools[MAX_POOLS];
	size_t num_pools;
	enum sandbox_mode sandbox;
};

struct daemon {
	uv_loop_t loop;
	uv_signal_t term, intr, hup;
	uv_timer_t watchdog;
	struct ffo *ffo;
};

static void usage(void)
{
	puts("Usage: ffo [OPTION]...\n"
	     "The orchestrator of freeflow: addresses, containers, the mem-to-shadow map.\n");
#define X(name, letter, arg, help)                                                                 \
	printf("  -%c, --%s %s\n\t\t\t%s\n", letter, name, arg ?: "", help);
	OPTIONS(X)
#undef X
}

/* Refuse the command line: one line, exit status 2. */
static void __attribute__((noreturn, format(printf, 1, 2))) refuse(const char *fmt, ...)
{
	va_list ap;

	fputs("ffo: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("; see ffo --help\n", stderr);
	exit(2);
}

static void add_pool(struct options *o, int family, const char *pool)
{
	struct alloc *a;
	char why[160];
	int err;

	if (o->num_pools == MAX_POOLS)
		refuse("more than %d address pools", MAX_POOLS);
	if (alloc_create(&a))
		refuse("out of memory");
	err = alloc_set_pool(a, family, pool, why, sizeof(why));
	alloc_free(a);
	if (err)
		refuse("%s", why);
	o->pools[o->num_pools++] = pool;
}

static void add_listen(struct options *o, const char *address)
{
	struct sockaddr_storage sa;

	if (o->num_listen == MAX_LISTEN)
		refuse("more than %d addresses to listen at", MAX_LISTEN);
	if (ffo_address_parse(address, &sa))
		refuse("--listen %s: must be unix:/path, tls:address:port or tcp:address:port",
		       address);
	o->listen[o->num_listen++] = address;
}

static void set_sandbox(struct options *o, const char *mode)
{
	int m = sandbox_mode_parse(mode);

	if (m < 0)
		refuse("--sandbox %s: must be on, log or off", mode);
	o->sandbox = (enum sandbox_mode)m;
}

/* All three files, or none where nothing needs them. */
static void check_tls(const struct options *o)
{
	const char *missing = !o->cert ? "--cert" : !o->key ? "--key" : !o->ca ? "--ca" : NULL;

	if (!missing)
		return;
	for (size_t i = 0; i < o->num_listen; i++)
		if (ffo_address_is_tls(o->listen[i]))
			refuse("--listen %s needs %s", o->listen[i], missing);
	if (o->crl && !o->cert && !o->key && !o->ca)
		refuse("--crl is for tls: addresses: there is no --cert");
	if (o->cert || o->key || o->ca)
		refuse("--cert, --key and --ca need each other: there is no %s", missing);
}

static void parse_options(int argc, char **argv, struct options *o)
{
	int c, index = 0;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":s:l:c:k:a:r:R:4:6:L:b:Vh", long_options, &index)) !=
	       -1)
		switch (c) {
		case 's':
			if (!*optarg)
				refuse("--store needs a file name");
			o->store = optarg;
			break;
		case 'l':
			add_listen(o, optarg);
			break;
		case 'c':
			o->cert = optarg;
			break;
		case 'k':
			o->key = optarg;
			break;
		case 'a':
			o->ca = optarg;
			break;
		case 'r':
			o->crl = optarg;
			break;
		case '4':
			add_pool(o, AF_INET, optarg);
			break;
		case '6':
			add_pool(o, AF_INET6, optarg);
			break;
		case 'L':
			if (log_level_parse(optarg, &log_level))
				refuse("--log-level %s: must be error, warning, info or debug",
				       optarg);
			break;
		case 'b':
			set_sandbox(o, optarg);
			break;
		case 'V':
			puts("ffo (freeflow) " FF_VERSION);
			exit(0);
		case 'h':
			usage();
			exit(0);
		case ':':
			refuse("option %s needs an argument", argv[optind - 1]);
		default:
			if (optopt && strncmp(argv[optind - 1], "--", 2))
				refuse("unknown option -%c", optopt);
			refuse("wrong option %s", argv[optind - 1]);
		}
	if (optind < argc)
		refuse("unexpected argument \"%s\"", argv[optind]);
	if (!o->num_listen)
		o->listen[o->num_listen++] = FFO_SOCKET_DEFAULT;
	check_tls(o);
}

/* The directory of a file, when it is one of the default places and is not there yet. */
static void make_dir(const char *file, const char *default_file)
{
	char dir[128];
	char *slash;

	if (strcmp(file, default_file))
		return;
	snprintf(dir, sizeof(dir), "%s", file);
	slash = strrchr(dir, '/');
	*slash = '\0';
	if (mkdir(dir, 0755) && errno != EEXIST)
		log_err("%s: cannot be made: %m", dir);
}

/*
 * Everything is open: from here on, the store's files and the sockets' folders, to read those with
 * certificates, where new ones will be, and nothing else.
 */
static int confine(const struct options *o)
{
	const char *const tls_files[] = { o->cert, o->key, o->ca, o->crl };
	struct sandbox_conf box = { .mode = o->sandbox };
	char *path[1 + MAX_LISTEN + ARRAY_LEN(tls_files)];
	size_t n = 0, num_rw;
	int err = 0;

	if (strncmp(o->store, "zookeeper:", strlen("zookeeper:")) && strcmp(o->store, ":memory:"))
		path[n++] = strdup(o->store);
	for (size_t i = 0; i < o->num_listen; i++)
		if (!strncmp(o->listen[i], "unix:", strlen("unix:")))
			path[n++] = strdup(o->listen[i] + strlen("unix:"));
	num_rw = n;
	for (size_t i = 0; o->cert && i < ARRAY_LEN(tls_files); i++)
		if (tls_files[i])
			path[n++] = strdup(tls_files[i]);
	for (size_t i = 0; i < n; i++) {
		if (!path[i])
			err = -ENOMEM;
		else if (i < num_rw)
			box.store.dirs[box.store.num_dirs++] = dirname(path[i]);
		else
			box.store.read_dirs[box.store.num_read_dirs++] = dirname(path[i]);
	}
	if (!err)
		err = sandbox_prepare(&box);
	if (!err)
		err = sandbox_enter(SANDBOX_FFO);
	for (size_t i = 0; i < n; i++)
		free(path[i]);
	return err;
}

static void hup_block(int how)
{
	sigset_t hup;

	sigemptyset(&hup);
	sigaddset(&hup, SIGHUP);
	sigprocmask(how, &hup, NULL);
}

static void stop(uv_signal_t *s, int number)
{
	struct daemon *d = s->data;

	log_info("%s: stopping", strsignal(number));
	hup_block(SIG_BLOCK);
	ffo_destroy(d->ffo);
	uv_close((uv_handle_t *)&d->term, NULL);
	uv_close((uv_handle_t *)&d->intr, NULL);
	uv_close((uv_handle_t *)&d->hup, NULL);
	uv_close((uv_handle_t *)&d->watchdog, NULL);
}

static void look_again(uv_signal_t *s, int number)
{
	struct daemon *d = s->data;

	log_info("%s: certificates and the revocation list are looked at; options need a restart",
		 strsignal(number));
	ffo_look(d->ffo);
}

static void on_watchdog(uv_timer_t *t)
{
	(void)t;
	sd_notify("WATCHDOG=1");
}

int main(int argc, char **argv)
{
	struct options o = { .store = STORE_DEFAULT };
	struct ffo_conf conf;
	struct daemon d;
	int err;

	hup_block(SIG_BLOCK);
	parse_options(argc, argv, &o);
	log_never_block();
	log_journal(LOG_JOURNAL);
	signal(SIGPIPE, SIG_IGN);
	make_dir(o.store, STORE_DEFAULT);
	err = sandbox_no_ring(o.sandbox);
	if (err)
		log_warn("io_uring cannot be kept away from libuv: %s", strerror(-err));
	uv_loop_init(&d.loop);
	conf = (struct ffo_conf){ .store = o.store,
				  .pools = o.pools,
				  .num_pools = o.num_pools,
				  .cert = o.cert,
				  .key = o.key,
				  .ca = o.ca,
				  .crl = o.crl };
	err = ffo_create(&conf, &d.loop, &d.ffo);
	if (err)
		goto out;
	for (size_t i = 0; !err && i < o.num_listen; i++) {
		make_dir(o.listen[i] + strlen("unix:"), FFO_SOCKET_DEFAULT + strlen("unix:"));
		err = ffo_listen(d.ffo, o.listen[i]);
	}
	if (!err)
		err = confine(&o);
	if (err) {
		ffo_destroy(d.ffo);
	} else {
		d.term.data = d.intr.data = d.hup.data = &d;
		uv_signal_init(&d.loop, &d.term);
		uv_signal_init(&d.loop, &d.intr);
		uv_signal_start(&d.term, stop, SIGTERM);
		uv_signal_start(&d.intr, stop, SIGINT);
		uv_signal_init(&d.loop, &d.hup);
		uv_signal_start(&d.hup, look_again, SIGHUP);
		hup_block(SIG_UNBLOCK);
		uv_timer_init(&d.loop, &d.watchdog);
		if (sd_watchdog_ms())
			uv_timer_start(&d.watchdog, on_watchdog, 0, sd_watchdog_ms());
		log_info("ready: store %s, listening at %s%s", o.store, o.listen[0],
			 o.num_listen > 1 ? " and more" : "");
		sd_notify("READY=1");
	}
	uv_run(&d.loop, UV_RUN_DEFAULT);
out:
	uv_loop_close(&d.loop);
	return err ? 1 : 0;
}
