/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * commands.c - a command is found in the table (commands.h), its help, and what ffctl says of a wrong word. main.c
 * has the options that stand before a command.
 *
 * The completions of deploy/ read the help: two spaces, a command or an option with its value, two
 * spaces or more, text.
 *
 * Tests: conformance/completion.sh, system/bad_options.sh
 */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "ffr/ffctl/commands.h"
#include "ffr/ffctl/ffctl.h"

#define WORD_MAX 64 /* bytes of a word that a suggestion is looked for, NUL included */
#define WIDTH	 20 /* columns of a command or an option in the help */

#define DOCKER "--docker: print the flags for docker run instead\n"
#define CGROUP                                                                                     \
	"--cgroup PATH|none: only processes of this cgroup may open the device\n"                  \
	"--pid PID: only processes of this process's cgroup may open the device\n"
#define MODE	  "--mode MODE: how the router waits for work: adaptive, spin or socket\n"
#define UNTRUSTED "--untrusted: tight limits, for programs that may be hostile\n"
#define LIST                                                                                       \
	"--all: those of all hosts\n"                                                              \
	"--tenant TENANT: those of this tenant\n"                                                  \
	"--sort COLUMN: by a column of the list, as sessions; default: name\n"                     \
	"-q: print names only\n"
#define DRY_RUN "--dry-run: only try it: nothing is changed\n"
#define FORCE	"--force: also if programs use it: they lose the device\n"

static const struct command {
	const char *group, *word; /* word NULL: a command of one word */
	void (*run)(int argc, char **argv);
	const char *args, *what, *options;
} commands[] = {
#define X(group, word, run, args, what, options) { group, word, run, args, what, options },
	COMMANDS(X)
#undef X
};
#define NUM_COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Before the command. */
static const char options_before[] =
	"--admin SOCKET: the router's admin socket; default: $FFCTL_ADMIN, or " ADMIN_DEFAULT "\n"
	"--socket-dir DIR: its runtime_dir, where containers' sockets are; default: " RUN_DEFAULT
	"\n"
	"--timeout SECONDS: wait so long for an answer; default: 5\n"
	"--orchestrator ADDRESS: ask it, and not the router, as an operator\n"
	"--cert FILE: an operator's certificate, for tls:ADDRESS:PORT\n"
	"--key FILE: its key\n"
	"--ca FILE: the authorities that sign for orchestrators\n"
	"--crl FILE: the certificates that are revoked\n"
	"--version: print the version\n";
/* Before the command, and behind it. */
static const char options_all[] = "--json: print the answer as JSON\n"
				  "--help: show this help\n";

static const struct command *running; /* NULL: the options before it are being read */

/* "container add" */
static const char *name_of(const struct command *c)
{
	static char name[WORD_MAX];

	snprintf(name, sizeof(name), "%s%s%s", c->group, c->word ? " " : "", c->word ?: "");
	return name;
}

/* ---- the nearest word -------------------------------------------------------------------------- */

struct nearest {
	const char *word; /* the wrong one */
	char best[WORD_MAX];
	size_t distance; /* of best; none yet: the largest that makes a suggestion, plus 1 */
};

static size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How many letters must be put in, taken out, replaced or swapped with the next to make b of a. */
static size_t distance(const char *a, const char *b)
{
	size_t d[WORD_MAX][WORD_MAX], n = strlen(a), m = strlen(b);

	for (size_t i = 0; i <= n; i++)
		for (size_t k = 0; k <= m; k++) {
			if (!i || !k) {
				d[i][k] = i + k;
				continue;
			}
			d[i][k] = min(min(d[i - 1][k], d[i][k - 1]) + 1,
				      d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				d[i][k] = min(d[i][k], d[i - 2][k - 2] + 1);
		}
	return d[n][m];
}

static struct nearest nearest_to(const char *word)
{
	size_t len = strlen(word);

	return (struct nearest){ .word = word, .distance = (len < 3 ? 1 : len / 3) + 1 };
}

static void nearest_try(struct nearest *n, const char *word)
{
	size_t d;

	if (strlen(n->word) >= WORD_MAX || strlen(word) >= WORD_MAX)
		return;
	d = distance(n->word, word);
	if (d >= n->distance)
		return;
	n->distance = d;
	snprintf(n->best, sizeof(n->best), "%s", word);
}

/* Ends the program: `what`, with the suggestion or where the right words are. */
static void __attribute__((noreturn))
wrong_word(const char *what, const struct nearest *n, const char *dashes, const char *command)
{
	if (*n->best)
		usage_fail("%s: did you mean '%s%s'?", what, dashes, n->best);
	usage_fail("%s; see ffctl%s%s --help", what, *command ? " " : "", command);
}

/* ---- wrong words ------------------------------------------------------------------------------- */

static bool is_group(const char *word)
{
	for (size_t i = 0; i < NUM_COMMANDS; i++)
		if (commands[i].word && !strcmp(commands[i].group, word))
			return true;
	return false;
}

/* argv[0] is none, or a group, and then argv[1] none of its commands. */
static void __attribute__((noreturn)) unknown_command(char **argv)
{
	bool group = is_group(argv[0]);
	struct nearest n = nearest_to(argv[group]);
	char what[256];

	for (size_t i = 0; i < NUM_COMMANDS; i++)
		if (!group)
			nearest_try(&n, commands[i].group);
		else if (!strcmp(commands[i].group, argv[0]))
			nearest_try(&n, commands[i].word);
	snprintf(what, sizeof(what), "unknown command \"%.100s%s%.100s\"", argv[0],
		 group ? " " : "", group ? argv[1] : "");
	wrong_word(what, &n, "", group ? argv[0] : "");
}

/* Every "--option" at the beginning of a line of that text. */
static void try_lines(struct nearest *n, const char *text)
{
	char word[WORD_MAX];

	for (; *text; text += strcspn(text, "\n") + 1)
		if (sscanf(text, "--%63[a-z-]", word) == 1)
			nearest_try(n, word);
}

static const struct command *command_find(int argc, char **argv)
{
	for (size_t i = 0; i < NUM_COMMANDS; i++)
		if (!strcmp(argv[0], commands[i].group) &&
		    (!commands[i].word || (argc > 1 && !strcmp(argv[1], commands[i].word))))
			return &commands[i];
	if (argc == 1 && is_group(argv[0]))
		usage_fail("%s: a command is missing; see ffctl %s --help", argv[0], argv[0]);
	unknown_command(argv);
}

static bool takes_limits(const struct command *c)
{
	return strstr(c->args, "LIMIT");
}

static bool is_tenants(const struct command *c)
{
	return !strcmp(c->group, "tenant");
}

static bool is_option(const char *word)
{
	return word[0] == '-' && word[1];
}

static void __attribute__((noreturn)) unknown_option(const char *option)
{
	static const struct option none[] = { { 0 } };
	const char *command = running ? name_of(running) : "";
	const struct option *limit;
	char word[WORD_MAX] = "", what[256];
	struct nearest n;

	sscanf(option, "--%63[^=]", word);
	n = nearest_to(word);
	try_lines(&n, running ? running->options : options_before);
	try_lines(&n, options_all);
	if (running && takes_limits(running))
		for (limit = limit_options(none, is_tenants(running)); limit->name; limit++)
			nearest_try(&n, limit->name);
	snprintf(what, sizeof(what), "%s%sunknown option %.100s", command, running ? ": " : "",
		 option);
	wrong_word(what, &n, "--", command);
}

const struct option *options_some(const struct option *all, const char *letters,
				  struct option *some)
{
	size_t n = 0;

	for (; all->name; all++)
		if (strchr(letters, all->val))
			some[n++] = *all;
	some[n] = (struct option){ 0 };
	return some;
}

void option_fail(int o, char **argv)
{
	const char *option = argv[optind - 1];
	const char letter[3] = { '-', (char)optopt };

	if (optopt && strncmp(option, "--", 2)) /* optind may be ahead of it, or behind */
		option = letter;
	if (o == ':')
		usage_fail("option %s needs a value", option);
	if (optopt && option != letter)
		usage_fail("option %s takes no value", option);
	unknown_option(option);
}

long long option_number(const char *option, const char *text, long long min, long long max)
{
	char *end;
	long long n = strtoll(text, &end, 0);

	if (end == text || *end || n < min || n > max)
		usage_fail("%s: \"%s\" is not %lld..%lld", option, text, min, max);
	return n;
}

/* Of a command that has none; what stands behind "--" is no option. */
static void no_options(char **argv)
{
	for (; *argv && strcmp(*argv, "--"); argv++)
		if (is_option(*argv))
			unknown_option(*argv);
}

void no_more(int argc, char **argv, int at)
{
	if (at >= argc)
		return;
	if (is_option(argv[at]))
		unknown_option(argv[at]);
	usage_fail("%s: unexpected argument \"%s\"", name_of(running), argv[at]);
}

/* ---- help -------------------------------------------------------------------------------------- */

static void print_lines(const char *text)
{
	int option, what;

	for (; *text; text += option + what + 3) {
		option = (int)(strstr(text, ": ") - text);
		what = (int)strcspn(text + option + 2, "\n");
		printf("  %-*.*s  %.*s\n", WIDTH, option, text, what, text + option + 2);
	}
}

/* All of them, or those of a group. */
static void print_commands(const char *group)
{
	for (size_t i = 0; i < NUM_COMMANDS; i++)
		if (!group || !strcmp(group, commands[i].group))
			printf("  %-*s  %s\n", WIDTH, name_of(&commands[i]), commands[i].what);
}

static void help(void)
{
	puts("usage: ffctl [OPTION]... COMMAND\n");
	print_commands(NULL);
	putchar('\n');
	print_lines(options_before);
	print_lines(options_all);
	puts("\nffctl COMMAND --help has the options of a command, ffctl(8) the whole.");
}

static void help_of(const struct command *c)
{
	printf("usage: ffctl %s%s%s [OPTION]...\n\n%c%s.\n\n", name_of(c), *c->args ? " " : "",
	       c->args, toupper(c->what[0]), c->what + 1);
	print_lines(c->options);
	print_lines(options_all);
	if (takes_limits(c))
		limit_help(is_tenants(c));
}

void help_words(int argc, char **argv)
{
	if (!argc) {
		help();
	} else if (is_group(argv[0]) && (argc == 1 || is_option(argv[1]))) {
		printf("usage: ffctl %s COMMAND\n\n", argv[0]);
		print_commands(argv[0]);
	} else {
		help_of(command_find(argc, argv));
	}
}

void cmd_help(int argc, char **argv)
{
	int words = argc > 1 && is_group(argv[1]) ? 2 : 1;

	no_more(argc, argv, words + 1);
	help_words(argc - 1, argv + 1);
}

void command_run(int argc, char **argv)
{
	int words;

	running = command_find(argc, argv);
	words = running->word ? 1 : 0;
	if (!*running->options && !takes_limits(running))
		no_options(argv + words + 1);
	optind = 0; /* getopt anew, on the command's own words */
	running->run(argc - words, argv + words);
}
