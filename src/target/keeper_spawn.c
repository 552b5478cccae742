/* Starts one process: everything between fork and exec. */
#include "keeper_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PIPE_BYTES = 1024 * 1024 }; /* slack for bursts of output; a smaller pipe works too */

static void default_signals(void)
{
    const struct sigaction dfl = {.sa_handler = SIG_DFL};
    for (int n = 1; n < NSIG; n++)
        sigaction(n, &dfl, NULL); /* fails for the few that cannot be changed */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void give_up(int verdict, int error, bool in_dir)
{
    const struct spawn_error sent = {.error = error, .in_dir = in_dir};
    if (write(verdict, &sent, sizeof(sent)) < 0)
        _exit(126);
    _exit(127);
}

static _Noreturn void become(const struct order *order, const struct order_strings *strings, pid_t keeper,
                             int output, int verdict)
{
    char mark[sizeof(SPAWN_MARK) + 48];
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) /* it died before the line above */
        _exit(127);
    default_signals();

    /* The pipes are above 2, since the keeper's own 0, 1 and 2 are always open. */
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        give_up(verdict, errno, false);
    if (verdict != 3 && dup3(verdict, 3, O_CLOEXEC) < 0)
        give_up(verdict, errno, false);
    verdict = 3;
    close_range(4, ~0U, 0);

    for (size_t i = 0; i < strings->n_env; i++)
        putenv(strings->env[i]);
    snprintf(mark, sizeof(mark), SPAWN_MARK "%d.%llu", keeper, (unsigned long long)order->id);
    putenv(mark);
    if (strings->dir[0] && chdir(strings->dir) < 0)
        give_up(verdict, errno, true);
    execvp(strings->args[0], strings->args);
    give_up(verdict, errno, false);
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

int spawn(const struct order *order, const struct order_strings *strings, struct spawned *ret_spawned)
{
    int output[2] = {-1, -1}, verdict[2] = {-1, -1};
    const pid_t keeper = getpid();
    int error = 0;
    if (pipe2(output, O_CLOEXEC) < 0 || pipe2(verdict, O_CLOEXEC) < 0) {
        error = -errno;
        goto fail;
    }
    fcntl(output[0], F_SETPIPE_SZ, PIPE_BYTES);
    fcntl(output[0], F_SETFL, O_NONBLOCK); /* the reader's end only */
    const pid_t pid = fork();
    if (pid < 0) {
        error = -errno;
        goto fail;
    }
    if (pid == 0)
        become(order, strings, keeper, output[1], verdict[1]);
    close(output[1]);
    close(verdict[1]);
    *ret_spawned = (struct spawned){.pid = pid, .output = output[0], .verdict = verdict[0]};
    return 0;
fail:
    close_pair(output);
    close_pair(verdict);
    return error;
}
