/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * completion.c - which options each command of ffctl takes. completion.sh, which starts this program,
 * links it with ffctl, whose main() it has renamed to ffctl_main(). Each of some 3,000 questions is a
 * fork() then, which takes a tenth of the time of an exec().
 *
 *     completion ADMIN OPTION... <COMMANDS
 *
 * ADMIN is a socket that does not exist. Each line of the input is a command. For each, the program
 * prints the OPTIONs that ffctl does not refuse as unknown, or for their value, and an empty line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS  8
#define ANSWER 16384

int ffctl_main(int argc, char **argv);

/* What ffctl says. */
static void ask(const char *admin, char *const *words, int n, const char *option, char *answer)
{
	char *argv[WORDS + 5] = { "ffctl", "--admin", (char *)admin };
	int argc = 3, out[2], status;
	size_t len = 0;
	ssize_t got;
	pid_t pid;

	for (int i = 0; i < n; i++)
		argv[argc++] = words[i];
	argv[argc++] = (char *)option;
	if (pipe(out))
		abort();
	fflush(stdout); /* the child ends by exit() */
	pid = fork();
	if (pid < 0)
		abort();
	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		close(out[0]);
		close(out[1]);
		exit(ffctl_main(argc, argv));
	}
	close(out[1]);
	while ((got = read(out[0], answer + len, ANSWER - 1 - len)) > 0)
		len += (size_t)got;
	answer[len] = '\0';
	close(out[0]);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		abort();
}

static void command(const char *admin, char **words, int n, char **options)
{
	static char answer[ANSWER];

	for (; *options; options++) {
		ask(admin, words, n, *options, answer);
		if (!strstr(answer, ": unknown option ") && !strstr(answer, " takes no value"))
			printf("%.*s\n", (int)strcspn(*options, "="), *options);
	}
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[256], *words[WORDS], *save;
	int n;

	if (argc < 3)
		return 2;
	while (fgets(line, sizeof(line), stdin)) {
		n = 0;
		for (char *w = strtok_r(line, " \n", &save); w && n < WORDS;
		     w = strtok_r(NULL, " \n", &save))
			words[n++] = w;
		command(argv[1], words, n, argv + 2);
	}
	return 0;
}
