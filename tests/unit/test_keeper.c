/* The keeper with real processes: shells, their children, and those that try to get away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper.h"
#include "loop_until.h"
#include "tree.h"

enum { PIDS_MAX = 8 };
static const wg_usec patience = 20 * WG_USEC_PER_SEC;

struct fixture {
    struct wg_loop *loop;
    struct wg_keeper *keeper;
};

/* What was told of one child. */
struct told {
    struct keeper_child *child;
    pid_t pid;
    int output;
    int started, failed, exited, gone;
    char why[600];
    char text[8192]; /* of its output so far */
    size_t len;
    const char *awaited; /* in the text */
};

static void on_started(void *arg, pid_t pid, int output)
{
    struct told *told = arg;
    told->started++;
    told->pid = pid;
    told->output = output;
    assert_int_equal(told->exited + told->gone, 0);
}

static void on_failed(void *arg, const char *why)
{
    struct told *told = arg;
    told->failed++;
    snprintf(told->why, sizeof(told->why), "%s", why);
}

static void on_exited(void *arg, const char *why)
{
    struct told *told = arg;
    told->exited++;
    assert_int_equal(told->gone, 0);
    snprintf(told->why, sizeof(told->why), "%s", why);
}

static void on_gone(void *arg)
{
    struct told *told = arg;
    told->gone++;
    told->child = NULL;
}

static const struct keeper_child_handler handler = {
    .started = on_started, .start_failed = on_failed, .exited = on_exited, .gone = on_gone};

static int set_up(void **state)
{
    struct fixture *f = WG_NEW(struct fixture);
    struct wg_keeper_seat *seat;
    assert_int_equal(wg_keeper_fork(&seat), 0);
    f->loop = wg_loop_new();
    f->keeper = wg_keeper_attach(seat, f->loop);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    wg_keeper_free(f->keeper);
    wg_loop_free(f->loop);
    free(f);
    return 0;
}

static int order(struct fixture *f, struct told *told, char **args, const char *dir, char **env)
{
    size_t n = 0, n_env = 0;
    while (args[n])
        n++;
    while (env && env[n_env])
        n_env++;
    const struct keeper_start start = {
        .label = "test", .dir = dir, .args = args, .n_args = n, .env = env, .n_env = n_env};
    *told = (struct told){.output = -1};
    return keeper_start(f->keeper, &start, &handler, told, &told->child);
}

static void order_shell(struct fixture *f, struct told *told, const char *script)
{
    char *copy = wg_xstrdup(script);
    char sh[] = "/bin/sh", c[] = "-c";
    char *args[] = {sh, c, copy, NULL};
    assert_int_equal(order(f, told, args, "", NULL), 0);
    free(copy);
}

static void read_output(struct told *told)
{
    ssize_t n;
    while (told->output >= 0 && told->len < sizeof(told->text) - 1 &&
           (n = read(told->output, told->text + told->len, sizeof(told->text) - 1 - told->len)) > 0)
        told->len += (size_t)n;
    told->text[told->len] = '\0';
}

static bool is_over(void *arg)
{
    const struct told *told = arg;
    return told->failed || told->gone;
}

static bool has_said(void *arg)
{
    struct told *told = arg;
    read_output(told);
    return strstr(told->text, told->awaited) != NULL;
}

static bool until_over(struct fixture *f, struct told *told)
{
    return loop_until(f->loop, is_over, told, patience);
}

static void until_said(struct fixture *f, struct told *told, const char *text)
{
    told->awaited = text;
    assert_true(loop_until(f->loop, has_said, told, patience));
}

static void done_with(struct told *told)
{
    if (told->output >= 0)
        close(told->output);
    told->output = -1;
}

/* The numbers behind "pid=" in the text. */
static size_t pids_in(const char *text, pid_t *pids)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, "pid=")) && n < PIDS_MAX; at += 4)
        pids[n++] = (pid_t)strtol(at + 4, NULL, 10);
    return n;
}

/* No such process, not even a zombie. */
static bool is_gone(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

static void test_output_and_status(void **state)
{
    struct fixture *f = *state;
    struct told told;
    order_shell(f, &told, "echo out; echo err >&2; exit 3");
    assert_int_equal(told.started, 0);
    assert_true(until_over(f, &told));
    read_output(&told);
    assert_string_equal(told.text, "out\nerr\n");
    assert_string_equal(told.why, "exited with status 3");
    assert_int_equal(told.started, 1);
    assert_int_equal(told.exited, 1);
    assert_int_equal(told.gone, 1);
    assert_true(is_gone(told.pid));
    done_with(&told);
}

static void test_killed_by_signal(void **state)
{
    struct fixture *f = *state;
    struct told told;
    order_shell(f, &told, "kill -9 $$");
    assert_true(until_over(f, &told));
    assert_string_equal(told.why, "was killed by signal 9 (Killed)");
    done_with(&told);
}

static void test_exec_failures(void **state)
{
    struct fixture *f = *state;
    struct told told;
    char missing[] = "no-such-program", forbidden[] = "/etc/passwd", sh[] = "/bin/sh";
    char *args[] = {missing, NULL};
    assert_int_equal(order(f, &told, args, "", NULL), 0);
    assert_true(until_over(f, &told));
    assert_string_equal(told.why, "no-such-program: No such file or directory");
    assert_int_equal(told.started + told.exited + told.gone, 0);

    args[0] = forbidden;
    assert_int_equal(order(f, &told, args, "", NULL), 0);
    assert_true(until_over(f, &told));
    assert_string_equal(told.why, "/etc/passwd: Permission denied");

    args[0] = sh;
    assert_int_equal(order(f, &told, args, "/no/such/directory", NULL), 0);
    assert_true(until_over(f, &told));
    assert_string_equal(told.why, "working directory /no/such/directory: No such file or directory");
}

static void test_too_large(void **state)
{
    struct fixture *f = *state;
    struct told told;
    char *large = wg_xcalloc(70000, 1);
    memset(large, 'a', 69999);
    char sh[] = "/bin/sh";
    char *args[] = {sh, large, NULL};
    assert_int_equal(order(f, &told, args, "", NULL), -E2BIG);
    free(large);
}

static void test_surroundings(void **state)
{
    struct fixture *f = *state;
    struct told told;
    char sh[] = "sh", c[] = "-c"; /* found by PATH */
    char script[] = "echo word=$WORD; pwd; cat; echo read; ls -l /proc/$$/fd | grep -c ' [0-9]* ->'; "
                    "grep -E 'SigBlk|SigIgn' /proc/self/status; [ $(ps -o sid= $$) = $$ ] && echo session";
    char word[] = "WORD=given";
    char *args[] = {sh, c, script, NULL}, *env[] = {word, NULL};
    assert_int_equal(order(f, &told, args, "/usr", env), 0);
    assert_true(until_over(f, &told));
    read_output(&told);
    assert_string_equal(told.text, "word=given\n/usr\nread\n3\nSigBlk:\t0000000000000000\n"
                                   "SigIgn:\t0000000000000000\nsession\n");
    done_with(&told);
}

static void test_stop_by_sigterm(void **state)
{
    struct fixture *f = *state;
    struct told told;
    order_shell(f, &told, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    until_said(f, &told, "ready");
    keeper_stop(told.child, patience);
    assert_true(until_over(f, &told));
    assert_string_equal(told.why, "exited with status 0");
    read_output(&told);
    assert_non_null(strstr(told.text, "bye"));
    done_with(&told);
}

/* A second SIGTERM makes many servers drop what they have. */
static void test_sigterm_comes_once(void **state)
{
    struct fixture *f = *state;
    struct told told;
    order_shell(f, &told,
                "exec 2>/dev/null; trap 'echo term' TERM; echo ready; "
                "i=0; while [ $i -lt 30 ]; do sleep 0.01; i=$((i+1)); done");
    until_said(f, &told, "ready");
    keeper_stop(told.child, patience);
    assert_true(until_over(f, &told));
    read_output(&told);
    assert_string_equal(told.text, "ready\nterm\n");
    done_with(&told);
}

#define STUBBORN "trap '' TERM; echo pid=$$; while :; do sleep 0.05; done"

static size_t n_pids(struct told *told)
{
    pid_t pids[PIDS_MAX];
    read_output(told);
    return pids_in(told->text, pids);
}

static bool has_two_pids(void *arg)
{
    return n_pids(arg) == 2;
}

static bool has_three_pids(void *arg)
{
    return n_pids(arg) == 3;
}

static void test_ACT_10_stubborn_tree_is_killed(void **state)
{
    struct fixture *f = *state;
    struct told told;
    pid_t pids[PIDS_MAX];
    /* One in the group, one in a session of its own, one that is nobody's child any more. */
    order_shell(f, &told,
                "trap '' TERM; (" STUBBORN ") & setsid sh -c \"" STUBBORN "\" & "
                "(setsid sh -c \"" STUBBORN "\" &) ; wait");
    assert_true(loop_until(f->loop, has_three_pids, &told, patience));
    const size_t n = pids_in(told.text, pids);
    const wg_usec before = wg_clock_monotonic();
    keeper_stop(told.child, 200 * WG_USEC_PER_MSEC);
    assert_true(until_over(f, &told));
    assert_true(wg_clock_monotonic() - before >= 200 * WG_USEC_PER_MSEC);
    assert_string_equal(told.why, "was killed by signal 9 (Killed)");
    assert_true(is_gone(told.pid));
    for (size_t i = 0; i < n; i++)
        assert_true(is_gone(pids[i]));
    done_with(&told);
}

/* Of two that both have daemons on the loose, only the one that is stopped loses its own. */
static void test_daemon_is_known_by_its_mark(void **state)
{
    struct fixture *f = *state;
    static const char script[] = "(setsid sh -c 'echo pid=$$; exec sleep 300' &); exec sleep 300";
    struct told a, b;
    pid_t pid_a, pid_b;
    order_shell(f, &a, script);
    order_shell(f, &b, script);
    until_said(f, &a, "\n");
    until_said(f, &b, "\n");
    assert_int_equal(pids_in(a.text, &pid_a), 1);
    assert_int_equal(pids_in(b.text, &pid_b), 1);
    keeper_stop(a.child, patience);
    assert_true(until_over(f, &a));
    assert_true(is_gone(pid_a));
    assert_int_equal(b.exited, 0);
    assert_int_equal(kill(pid_b, 0), 0);
    keeper_stop(b.child, patience);
    assert_true(until_over(f, &b));
    assert_true(is_gone(pid_b));
    done_with(&a);
    done_with(&b);
}

static void test_second_stop_shortens(void **state)
{
    struct fixture *f = *state;
    struct told told;
    order_shell(f, &told, STUBBORN);
    until_said(f, &told, "\n");
    keeper_stop(told.child, 600 * WG_USEC_PER_SEC);
    keeper_stop(told.child, 0);
    assert_true(until_over(f, &told));
    assert_string_equal(told.why, "was killed by signal 9 (Killed)");
    done_with(&told);
}

static void test_stop_before_exec(void **state)
{
    struct fixture *f = *state;
    struct told told;
    order_shell(f, &told, "sleep 300");
    keeper_stop(told.child, patience); /* the order to start is still on its way */
    assert_true(until_over(f, &told));
    assert_int_equal(told.gone + told.failed, 1);
    done_with(&told);
}

static void test_exit_takes_the_rest_along(void **state)
{
    struct fixture *f = *state;
    struct told told;
    pid_t pids[PIDS_MAX];
    order_shell(f, &told, "sleep 300 & echo pid=$!; setsid sleep 300 & echo pid=$!; exit 7");
    assert_true(until_over(f, &told));
    read_output(&told);
    assert_string_equal(told.why, "exited with status 7");
    assert_int_equal(pids_in(told.text, pids), 2);
    assert_true(is_gone(pids[0]));
    assert_true(is_gone(pids[1]));
    done_with(&told);
}

static int children_of(pid_t parent)
{
    struct tree tree;
    int n = 0;
    assert_int_equal(tree_read(&tree), 0);
    for (size_t i = 0; i < tree.n; i++)
        n += tree.items[i].parent == parent;
    tree_clear(&tree);
    return n;
}

static bool has_one_child(void *arg)
{
    return children_of(*(const pid_t *)arg) == 1;
}

static void test_orphans_are_reaped(void **state)
{
    struct fixture *f = *state;
    struct told told;
    pid_t keeper = keeper_pid(f->keeper);
    order_shell(f, &told, "for i in 1 2 3 4 5 6 7 8; do (sleep 0.05 &); done; echo done; exec sleep 300");
    until_said(f, &told, "done");
    assert_true(loop_until(f->loop, has_one_child, &keeper, patience));
    keeper_stop(told.child, patience);
    assert_true(until_over(f, &told));
    assert_int_equal(children_of(keeper), 0);
    done_with(&told);
}

/* As PID 1 everybody's orphans come to us, not only the keeper's. */
static void test_foreign_orphans_are_reaped(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    struct wg_keeper_seat *seat;
    wg_keeper_free(f->keeper);
    assert_int_equal(wg_keeper_fork(&seat), 0);
    f->keeper = wg_keeper_attach(seat, f->loop);
    const pid_t middle = fork();
    if (middle == 0)
        _exit(fork() < 0);
    int status;
    assert_int_equal(waitpid(middle, &status, 0), middle);
    assert_int_equal(status, 0);
    pid_t self = getpid();
    assert_true(loop_until(f->loop, has_one_child, &self, patience)); /* the keeper */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static void test_free_kills_all(void **state)
{
    struct fixture *f = *state;
    struct told told;
    order_shell(f, &told, STUBBORN);
    until_said(f, &told, "\n");
    const pid_t keeper = keeper_pid(f->keeper);
    const wg_usec before = wg_clock_monotonic();
    f->keeper = wg_keeper_free(f->keeper);
    assert_true(wg_clock_monotonic() - before < WG_USEC_PER_SEC);
    assert_true(is_gone(told.pid));
    assert_true(is_gone(keeper));
    assert_int_equal(told.gone, 1);
    done_with(&told);
}

/* Who was told to stop has its time; who was not is killed. */
static void test_free_waits_for_those_that_stop(void **state)
{
    struct fixture *f = *state;
    struct told stops, runs;
    order_shell(f, &stops, "trap 'sleep 0.3; echo bye; exit' TERM; echo up; while :; do sleep 0.01; done");
    order_shell(f, &runs, STUBBORN);
    until_said(f, &stops, "up");
    until_said(f, &runs, "\n");
    keeper_stop(stops.child, patience);
    const wg_usec before = wg_clock_monotonic();
    f->keeper = wg_keeper_free(f->keeper);
    assert_true(wg_clock_monotonic() - before < patience);
    read_output(&stops);
    assert_non_null(strstr(stops.text, "bye"));
    assert_true(is_gone(stops.pid));
    assert_true(is_gone(runs.pid));
    done_with(&stops);
    done_with(&runs);
}

static bool are_gone(void *arg)
{
    const pid_t *pids = arg;
    for (size_t i = 0; pids[i]; i++) {
        /* Who has taken over the keeper may be slow to reap it: a zombie is dead enough. */
        struct tree tree;
        assert_int_equal(tree_read(&tree), 0);
        const struct tree_process *process = tree_find(&tree, pids[i]);
        const bool alive = process && process->alive;
        tree_clear(&tree);
        if (alive)
            return false;
    }
    return true;
}

/* One that is stopped, or starved: what it should have killed is killed all the same. */
static void test_free_does_without_a_stopped_keeper(void **state)
{
    struct fixture *f = *state;
    struct told told;
    pid_t pids[PIDS_MAX] = {0};
    order_shell(f, &told, "(" STUBBORN ") & trap '' TERM; wait");
    until_said(f, &told, "\n");
    assert_int_equal(pids_in(told.text, pids), 1);
    pids[1] = told.pid;
    pids[2] = keeper_pid(f->keeper);
    assert_int_equal(kill(keeper_pid(f->keeper), SIGSTOP), 0);
    keeper_stop(told.child, 0);
    f->keeper = wg_keeper_free(f->keeper);
    assert_int_equal(told.gone, 1);
    assert_true(loop_until(f->loop, are_gone, pids, 2 * WG_USEC_PER_SEC));
    done_with(&told);
}

static void test_death_of_the_keeper(void **state)
{
    struct fixture *f = *state;
    struct told told, late;
    pid_t pids[PIDS_MAX];
    order_shell(f, &told, "sleep 300 & echo pid=$!; exec sleep 300");
    until_said(f, &told, "\n");
    assert_int_equal(pids_in(told.text, pids), 1);
    kill(keeper_pid(f->keeper), SIGKILL);
    assert_true(until_over(f, &told));
    assert_string_equal(told.why, "was lost with the process keeper");
    assert_int_equal(told.exited, 1);
    char sh[] = "/bin/sh";
    char *args[] = {sh, NULL};
    assert_int_equal(order(f, &late, args, "", NULL), -EPIPE);
    done_with(&told);
}

/* `ending`: on its way out, waiting for what it has told to stop. */
static void be_wakegate(int report, bool ending)
{
    struct fixture f;
    struct wg_keeper_seat *seat;
    struct told told;
    if (wg_keeper_fork(&seat) < 0)
        _exit(1);
    f.loop = wg_loop_new();
    f.keeper = wg_keeper_attach(seat, f.loop);
    order_shell(&f, &told, "(" STUBBORN ") & (setsid sh -c \"" STUBBORN "\" &); trap '' TERM; wait");
    if (!loop_until(f.loop, has_two_pids, &told, patience))
        _exit(1);
    dprintf(report, "%spid=%d\npid=%d\n", told.text, told.pid, keeper_pid(f.keeper));
    if (ending) {
        keeper_stop(told.child, patience);
        wg_keeper_free(f.keeper);
    }
    for (;;)
        pause();
}

static void expect_no_survivor(struct fixture *f, bool ending)
{
    int report[2];
    pid_t pids[PIDS_MAX + 1] = {0};
    char text[512] = "";
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    const pid_t wakegate = fork();
    if (wakegate == 0)
        be_wakegate(report[1], ending);
    assert_true(read(report[0], text, sizeof(text) - 1) > 0);
    assert_int_equal(pids_in(text, pids), 4);
    kill(wakegate, SIGKILL);
    waitpid(wakegate, NULL, 0);
    assert_true(loop_until(f->loop, are_gone, pids, 2 * WG_USEC_PER_SEC));
    close(report[0]);
    close(report[1]);
}

static void test_ACT_10_nothing_survives_a_kill(void **state)
{
    expect_no_survivor(*state, false);
    expect_no_survivor(*state, true);
}

static void test_signals_do_not_end_the_keeper(void **state)
{
    struct fixture *f = *state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};
    struct told told;
    for (size_t i = 0; i < WG_COUNT_OF(signals); i++)
        assert_int_equal(kill(keeper_pid(f->keeper), signals[i]), 0);
    order_shell(f, &told, "exit 0");
    assert_true(until_over(f, &told));
    assert_string_equal(told.why, "exited with status 0");
    done_with(&told);
}

/* Orders that do not fit into the socket wait for room, and keep their order. */
static void test_many_orders_at_once(void **state)
{
    struct fixture *f = *state;
    enum { MANY = 40 };
    struct told told[MANY];
    char *large = wg_xcalloc(40001, 1);
    memset(large, 'a', 40000);
    char sh[] = "/bin/sh", c[] = "-c", script[] = "exit 5";
    char *args[] = {sh, c, script, large, NULL};
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(order(f, &told[i], args, "", NULL), 0);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(until_over(f, &told[i]));
        assert_string_equal(told[i].why, "exited with status 5");
        done_with(&told[i]);
    }
    free(large);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_output_and_status),
        TEST(test_killed_by_signal),
        TEST(test_exec_failures),
        TEST(test_too_large),
        TEST(test_surroundings),
        TEST(test_stop_by_sigterm),
        TEST(test_sigterm_comes_once),
        TEST(test_ACT_10_stubborn_tree_is_killed),
        TEST(test_daemon_is_known_by_its_mark),
        TEST(test_second_stop_shortens),
        TEST(test_stop_before_exec),
        TEST(test_exit_takes_the_rest_along),
        TEST(test_orphans_are_reaped),
        TEST(test_foreign_orphans_are_reaped),
        TEST(test_free_kills_all),
        TEST(test_free_waits_for_those_that_stop),
        TEST(test_free_does_without_a_stopped_keeper),
        TEST(test_death_of_the_keeper),
        TEST(test_ACT_10_nothing_survives_a_kill),
        TEST(test_signals_do_not_end_the_keeper),
        TEST(test_many_orders_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
