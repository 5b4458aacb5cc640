/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * main.c - ffr: command line, what is done with root's rights and how they end, signals, and the
 * control thread's loop. Started by a person or a service manager it is the parent of keeper and router
 * (keeper/parent.c), started by that the router. See ffr(8).
 *
 * SIGHUP is blocked before anything else is done, so that it ends nothing at any time. The parent waits for it, and
 * with sandbox = off the router's loop.
 *
 * Tests: system/bad_options.sh, system/reload.sh, system/sandbox.sh, system/systemd.sh
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libgen.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/keeper/keeper.h"
#include "ffr/lib/log.h"
#include "ffr/mem/orphans.h"
#include "ffr/mem/stall.h"
#include "ffr/mem/view.h"
#include "ffr/ctl/record.h"
#include "ffr/router.h"
#include "ffr/lib/sandbox.h"
#include "ffr/lib/sd.h"
#include "ffr/lib/version.h"
#include "ffr/lib/user.h"

#define EXIT_USAGE 2

enum {
	OPT_CONFIG = 1,
	OPT_SOCKET_DIR,
	OPT_ADMIN,
	OPT_FOREGROUND,
	OPT_LOG_LEVEL,
	OPT_CHECK,
	OPT_VERSION
};

static const struct option options[] = {
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "socket-dir", required_argument, NULL, OPT_SOCKET_DIR },
	{ "admin", required_argument, NULL, OPT_ADMIN },
	{ "foreground", no_argument, NULL, OPT_FOREGROUND },
	{ "log-level", required_argument, NULL, OPT_LOG_LEVEL },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static const char usage[] =
	"usage: ffr [--config FILE] [--socket-dir DIR] [--admin SOCKET] [--log-level LEVEL]\n"
	"       ffr --check [FILE]\n"
	"\n"
	"  --config FILE      configuration (" CONF_PATH_DEFAULT ")\n"
	"  --socket-dir DIR   runtime_dir, where containers' sockets are (" CONF_RUNTIME_DEFAULT
	")\n"
	"  --admin SOCKET     admin_socket, for ffctl (DIR/admin.sock)\n"
	"  --foreground       do not detach; there is no other way\n"
	"  --log-level LEVEL  error, warning, info or debug\n"
	"  --check            look for mistakes in the configuration, and start nothing\n"
	"  --version, --help\n";

struct args {
	const char *config, *socket_dir, *admin, *log_level;
	bool check;
};

static void refuse(const char *fmt, const char *what)
{
	fputs("ffr: ", stderr);
	fprintf(stderr, fmt, what);
	fputs("; see ffr --help\n", stderr);
	exit(EXIT_USAGE);
}

static void need_absolute(const char *option, const char *path)
{
	if (path && path[0] != '/')
		refuse("%s: not an absolute path", option);
}

static void args_parse(struct args *a, int argc, char **argv)
{
	enum log_level level;
	int o;

	opterr = 0;
	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (o) {
		case OPT_CONFIG:
			a->config = optarg;
			break;
		case OPT_SOCKET_DIR:
			a->socket_dir = optarg;
			break;
		case OPT_ADMIN:
			a->admin = optarg;
			break;
		case OPT_FOREGROUND:
			break;
		case OPT_LOG_LEVEL:
			a->log_level = optarg;
			break;
		case OPT_CHECK:
			a->check = true;
			break;
		case OPT_VERSION:
			puts("ffr " FF_VERSION);
			exit(0);
		case 'h':
			fputs(usage, stdout);
			exit(0);
		case ':':
			refuse("option %s needs a value", argv[optind - 1]);
			break;
		default:
			refuse("unknown option %s", argv[optind - 1]);
		}
	}
	if (a->check && !a->config && optind < argc)
		a->config = argv[optind++];
	if (optind < argc)
		refuse("unexpected argument \"%s\"", argv[optind]);
	need_absolute("--socket-dir", a->socket_dir);
	need_absolute("--admin", a->admin);
	if (a->log_level && log_level_parse(a->log_level, &level))
		refuse("--log-level: \"%s\" is none of error, warning, info, debug", a->log_level);
}

/* What the command line says goes before the file; what neither says follows from runtime_dir. */
static int conf_complete(struct ffr_conf *c, const struct args *a)
{
	if ((a->socket_dir && conf_override(&c->runtime_dir, a->socket_dir)) ||
	    (a->admin && conf_override(&c->admin_socket, a->admin)))
		return -ENOMEM;
	if (a->log_level)
		log_level_parse(a->log_level, &c->log_level);
	if (!c->admin_socket && asprintf(&c->admin_socket, "%s/admin.sock", c->runtime_dir) < 0)
		return -ENOMEM;
	if (!c->store && asprintf(&c->store, "%s/ffo.db", c->runtime_dir) < 0)
		return -ENOMEM;
	return 0;
}

/*
 * Raise the limit of open files, because every session takes several descriptors. The limit also bounds how many
 * descriptors of a user may be on their way in sockets (unix(7), ETOOMANYREFS), and router and keeper send many.
 */
static void raise_nofile(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur == rl.rlim_max)
		return;
	rl.rlim_cur = rl.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &rl))
		log_warn("RLIMIT_NOFILE: %m");
}

/* What a NIC, for example, reads and writes stays in memory. */
static void raise_memlock(const struct ffr_conf *conf)
{
	const struct rlimit rl = { RLIM_INFINITY, RLIM_INFINITY };
	struct carrier_use list[CARRIERS_ALL + 1];
	const char *name = carriers_choose(conf, list);

	if (name && setrlimit(RLIMIT_MEMLOCK, &rl))
		log_warn("RLIMIT_MEMLOCK: %m: carrier %s may not get all memory that is registered",
			 name);
}

static void on_signal(uv_signal_t *h, int signum)
{
	log_info("%s: stopping", strsignal(signum));
	if (signum != SIGUSR2)
		sd_notify("STOPPING=1");
	*(bool *)h->data = signum == SIGUSR2;
	uv_stop(h->loop);
}

/* Whom the router becomes. 0; -ENOENT: it stays who it is; or -errno with a line in the log. */
static int own_user(const struct ffr_conf *conf, struct user *u)
{
	int err;

	if (conf->sandbox == SANDBOX_OFF || geteuid())
		return -ENOENT;
	err = user_find(conf->user, u);
	if (!err || (err == -ENOENT && !conf->user))
		return err;
	log_err("user: \"%s\" is %s", conf->user ? conf->user : USER_DEFAULT,
		err == -ENOENT ? "no user here" : "neither a name nor UID:GID, or root");
	return -EINVAL;
}

/* Root's work is done: from here on the router is a user of its own. 0, or -errno with a line in the log. */
static int become_user(struct router *r)
{
	const struct ffr_conf *conf = &r->conf;
	struct user_rights rights = {
		.rt_priority = conf->fast.realtime ? conf->fast.priority : 0,
		.own_network = conf_is_alone(conf),
		.ends_with = getppid(),
	};
	struct user u;
	int err = own_user(conf, &u);

	if (err == -ENOENT && conf->sandbox != SANDBOX_OFF && !geteuid())
		log_warn("there is no user " USER_DEFAULT
			 ": the router stays root, without its capabilities");
	if (err)
		return err == -ENOENT ? 0 : err;
	err = router_give(conf, &u);
	return err ? err : user_become(&u, &rights);
}

/* The folder of a file that is there or will be; freed by the caller. */
static void reach_add(const char **dirs, size_t *num, const char *file, char **copy)
{
	*copy = file ? strdup(file) : NULL;
	if (*copy)
		dirs[(*num)++] = dirname(*copy);
}

/* The credentials of "zookeeper:...?auth=FILE", which are read again with each connection. NULL: none. */
static const char *credentials(const struct ffr_conf *conf)
{
	const char *s = strncmp(conf->orchestrator, "zookeeper:", 10) ?
				NULL :
				strstr(conf->orchestrator, "?auth=/");

	return s ? s + strlen("?auth=") : NULL;
}

/* libzookeeper connects as it likes, to the host's resolver as well. */
static bool has_unix_peers(const struct ffr_conf *conf)
{
	return !strncmp(conf->orchestrator, "unix:", 5) ||
	       !strncmp(conf->orchestrator, "zookeeper:", 10);
}

/*
 * Before any thread is started: what each kind of thread reaches. A folder that is not there keeps
 * nobody from starting, but then Landlock stays off, of which the log has a line.
 */
static int confine(const struct ffr_conf *conf)
{
	bool has_store = !strcmp(conf->orchestrator, "embedded") && conf->store[0] == '/';
	bool has_metrics = conf->metrics && !strncmp(conf->metrics, "unix:", 5);
	const char *const tls_files[] = { conf->wire_cert, conf->wire_key, conf->wire_ca,
					  conf->wire_crl };
	bool has_tls = conf->wire_tls &&
		       (conf->wire_listen || !strncmp(conf->orchestrator, "tls:", 4));
	struct sandbox_conf box = { .mode = conf->sandbox, .unix_peers = has_unix_peers(conf) };
	struct sandbox_reach *store = &box.store, *own = &box.control;
	char *copy[9] = { NULL };
	int err;

	if (has_store) {
		reach_add(store->dirs, &store->num_dirs, conf->store, &copy[0]);
		reach_add(own->dirs, &own->num_dirs, conf->store, &copy[1]);
	}
	own->dirs[own->num_dirs++] = conf->runtime_dir;
	if (!sd_is_passed("admin"))
		reach_add(own->dirs, &own->num_dirs, conf->admin_socket, &copy[2]);
	if (has_metrics)
		reach_add(own->dirs, &own->num_dirs, conf->metrics + 5, &copy[3]);
	reach_add(own->read_dirs, &own->num_read_dirs, credentials(conf), &copy[8]);
	for (int i = 0; i < 4 && has_tls; i++)
		reach_add(own->read_dirs, &own->num_read_dirs, tls_files[i], &copy[4 + i]);
	if (conf->num_nics) {
		box.fast.dev_dir = "/dev/infiniband";
		box.fast.read_dirs[box.fast.num_read_dirs++] = "/sys"; /* the NIC's thread */
	}
	err = sandbox_prepare(&box);
	for (size_t i = 0; i < sizeof(copy) / sizeof(copy[0]); i++)
		free(copy[i]);
	return err;
}

static int serve(struct router *r)
{
	int err;

	stall_init();
	err = sandbox_enter(SANDBOX_CONTROL);
	if (err)
		return err;
	err = router_start(r);
	if (err)
		log_err("orchestrator: %s", strerror(-err));
	else
		uv_run(&r->loop, UV_RUN_DEFAULT);
	return err;
}

/* ---- the configuration, read again ---------------------------------------------------------------- */

/* The configuration and what came with it, of this process. */
struct source {
	struct args args;
	struct router *router; /* where this process is the router */
	int sock; /* by which the parent sends the file's text; -1: there is no parent */
	uv_poll_t poll;
	uv_signal_t hup;
};

/* What the file says now, for struct parent_conf. The level of the log is that of this process, too. */
static char *reread(void *arg)
{
	const struct source *s = arg;
	struct ffr_conf c;
	char why[1024], *text;

	if (conf_read(s->args.config, true, &text, why, sizeof(why))) {
		log_err("%s; the configuration stays as it was", why);
		return NULL;
	}
	if (conf_parse(&c, s->args.config, text, why, sizeof(why))) {
		log_err("%s; the configuration stays as it was", why);
		free(text);
		return NULL;
	}
	if (!s->args.log_level)
		log_level = c.log_level;
	conf_free(&c);
	return text;
}

static void reload(struct source *s, char *text)
{
	struct ffr_conf next;
	char why[1024];

	if (conf_parse(&next, s->args.config, text, why, sizeof(why))) {
		log_err("%s; the configuration stays as it was", why);
		return;
	}
	if (conf_complete(&next, &s->args))
		log_err("out of memory; the configuration stays as it was");
	else
		router_reload(s->router, &next);
	conf_free(&next);
}

static void on_text(uv_poll_t *h, int status, int events)
{
	struct source *s = h->data;
	int err;
	char *text = parent_text(s->sock, &err);

	(void)status;
	(void)events;
	if (text)
		reload(s, text);
	free(text);
	if (err && err != -ENOMEM) /* the parent is about to end this process, too */
		uv_poll_stop(h);
}

static void on_hup(uv_signal_t *h, int signum)
{
	struct source *s = h->data;
	char *text = reread(s);

	(void)signum;
	if (text)
		reload(s, text);
	free(text);
}

static void hup_block(int how)
{
	sigset_t hup;

	sigemptyset(&hup);
	sigaddset(&hup, SIGHUP);
	sigprocmask(how, &hup, NULL);
}

static void source_watch(struct source *s)
{
	s->poll.data = s->hup.data = s;
	if (s->sock >= 0) {
		uv_poll_init(&s->router->loop, &s->poll, s->sock);
		uv_poll_start(&s->poll, UV_READABLE, on_text);
		return;
	}
	uv_signal_init(&s->router->loop, &s->hup);
	uv_signal_start(&s->hup, on_hup, SIGHUP);
	hup_block(SIG_UNBLOCK);
}

static void source_unwatch(struct source *s)
{
	hup_block(SIG_BLOCK);
	signal(SIGHUP, SIG_IGN); /* of threads that are about to end */
	uv_close(s->sock >= 0 ? (uv_handle_t *)&s->poll : (uv_handle_t *)&s->hup, NULL);
}

/* ---- the loop ------------------------------------------------------------------------------------- */

/* Without it no client can come. */
static void on_keeper(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	log_err("the keeper has ended: stopping");
	uv_poll_stop(h);
	*(bool *)h->data = true;
	uv_stop(h->loop);
}

/* The loop turns; a fast thread that held its lock for good would stop it. */
static void on_watchdog(uv_timer_t *t)
{
	(void)t;
	sd_notify("WATCHDOG=1");
}

static int run(struct router *r, int keeper, struct source *source)
{
	static const int signums[] = { SIGINT, SIGTERM, SIGUSR2 };
	const int num = keeper >= 0 ? 3 : 2; /* without a parent nobody starts it again */
	uint64_t watchdog_ms = sd_watchdog_ms();
	/* the loop's until router_fini() has run it to its end */
	static uv_signal_t sig[3];
	static bool again;
	static uv_timer_t watchdog;
	static uv_poll_t poll;
	static bool lost;
	int err;

	if (keeper >= 0) {
		uv_poll_init(&r->loop, &poll, keeper);
		poll.data = &lost;
		uv_poll_start(&poll, UV_DISCONNECT, on_keeper);
	}

	for (int i = 0; i < num; i++) {
		uv_signal_init(&r->loop, &sig[i]);
		sig[i].data = &again;
		uv_signal_start(&sig[i], on_signal, signums[i]);
	}
	uv_timer_init(&r->loop, &watchdog);
	if (watchdog_ms)
		uv_timer_start(&watchdog, on_watchdog, 0, watchdog_ms);
	source_watch(source);
	err = fast_start(r->ctl.host);
	if (err) {
		log_err("fast thread: %s", strerror(-err));
	} else {
		err = serve(r);
		fast_stop(r->ctl.host);
	}
	/* nothing is taken apart: the next router goes on with it (docs/internals/restart.md) */
	if (again && !err && !lost)
		_exit(ROUTER_AGAIN);
	/*
	 * A service manager tells each process to stop, and the parent says it once more: that is no reason to die now.
	 */
	for (int i = 0; i < num; i++) {
		uv_close((uv_handle_t *)&sig[i], NULL);
		signal(signums[i], SIG_IGN);
	}
	uv_close((uv_handle_t *)&watchdog, NULL);
	source_unwatch(source);
	if (keeper >= 0)
		uv_close((uv_handle_t *)&poll, NULL);
	return lost ? -EPIPE : err;
}

/* The router, or all of ffr with sandbox = off. keeper: the socket to it, -1: there is none. */
static int router_main(struct router *r, int keeper, struct source *source)
{
	char why[1024];
	int err;

	prctl(PR_SET_NAME, "ffr"); /* it was run by another name (parent.c) */
	/* seg.c has little for it to do; one that waits for work has the control thread's rights */
	setenv("UV_THREADPOOL_SIZE", "1", 1);
	raise_memlock(&r->conf);
	router_devices(r);
	err = become_user(r);
	if (err) {
		close(r->ctl.uffd_fd);
		return err;
	}
	err = sandbox_no_ring(r->conf.sandbox);
	if (err)
		log_warn("io_uring cannot be kept away from libuv: %s", strerror(-err));
	err = router_init(r, why, sizeof(why));
	if (err) {
		log_err("%s", why);
		return err;
	}
	err = confine(&r->conf);
	if (!err && keeper >= 0)
		err = keeper_use(keeper);
	if (!err) {
		view_init();
		router_look(r);
		sessions_look(&r->ctl);
		err = run(r, keeper, source);
	}
	router_fini(r);
	return err;
}

/* What the parent has read, or the file. 0 or -errno, with one line in why. */
static int first_load(struct ffr_conf *c, const struct source *s, char **text, char *why,
		      size_t size)
{
	int err = 0;

	if (s->sock < 0) {
		err = conf_read(s->args.config, false, text, why, size);
	} else {
		*text = parent_text(s->sock, &err);
		err = *text ? 0 : err ? err : -EAGAIN;
		if (err)
			snprintf(why, size, "the configuration of the parent: %s", strerror(-err));
	}
	return err ? err : conf_parse(c, s->args.config, *text, why, size);
}

/* --check: the exit status. */
static int check(const struct source *s)
{
	struct ffr_conf c;
	char why[1024], *text;
	int err = first_load(&c, s, &text, why, sizeof(why));

	free(text);
	if (err) {
		fprintf(stderr, "ffr: %s\n", why);
		return EXIT_USAGE;
	}
	conf_free(&c);
	printf("%s: no mistake\n", s->args.config ? s->args.config : CONF_PATH_DEFAULT);
	return EXIT_SUCCESS;
}

/* The first process. Its exit status. */
static int parent_main(const struct ffr_conf *conf, char **argv, struct source *source, char *text)
{
	struct sandbox_conf box = { .mode = conf->sandbox };
	struct parent_conf parent = { .box = &box, .argv = argv, .reread = reread, .arg = source };
	struct user u;
	int err = own_user(conf, &u);

	box.user = err ? NULL : &u;
	if (!err || err == -ENOENT)
		parent.orphans = orphans_start(&box, err ? NULL : &u, &parent.orphans_sock);
	if (parent.orphans > 0)
		return parent_run(&parent, text);
	free(text);
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static struct router r;
	static struct source source = { .router = &r };
	char why[1024], *text;
	int status, keeper, orphans;

	parent_nursery();
	hup_block(SIG_BLOCK);
	args_parse(&source.args, argc, argv);
	keeper = keeper_of_parent(&source.sock, &orphans);
	if (source.args.check)
		return check(&source);
	if (first_load(&r.conf, &source, &text, why, sizeof(why))) {
		fprintf(stderr, "ffr: %s\n", why);
		free(text);
		return EXIT_USAGE;
	}
	if (conf_complete(&r.conf, &source.args)) {
		fputs("ffr: out of memory\n", stderr);
		return EXIT_FAILURE;
	}
	log_level = r.conf.log_level;
	log_never_block();
	log_journal(LOG_JOURNAL);
	umask(022);
	signal(SIGPIPE, SIG_IGN);
	raise_nofile();
	if (r.conf.has_rio)
		rio_node_allow();
	if (keeper < 0 && r.conf.sandbox != SANDBOX_OFF) {
		status = parent_main(&r.conf, argv, &source, text);
	} else {
		free(text);
		orphans_use(orphans);
		status = router_main(&r, keeper, &source) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	conf_free(&r.conf);
	return status;
}
