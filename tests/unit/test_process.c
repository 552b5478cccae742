/* The process target with real servers, and with programs that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keeper.h"
#include "log_capture.h"
#include "port.h"
#include "target_watch.h"
#include "tree.h"

static const wg_usec patience = 20 * WG_USEC_PER_SEC;

#define PYTHON "/usr/bin/python3"
#define SERVER PYTHON, "-m", "http.server", "--bind", "127.0.0.1", "{port}"

struct fixture {
    struct wg_loop *loop;
    struct wg_keeper *keeper;
    struct wg_config config;
    struct wg_config_model model;
    struct wg_target *target;
    struct watch watch;
};

static int set_up(void **state)
{
    struct fixture *f = WG_NEW(struct fixture);
    struct wg_keeper_seat *seat;
    assert_int_equal(wg_keeper_fork(&seat), 0);
    f->loop = wg_loop_new();
    f->keeper = wg_keeper_attach(seat, f->loop);
    f->config.refs = 1; /* never the last one: it is not on the heap */
    log_capture_begin();
    *state = f;
    return 0;
}

static void clear_command(struct fixture *f)
{
    for (size_t i = 0; i < f->model.process.command.n; i++)
        free(f->model.process.command.items[i]);
    free(f->model.process.command.items);
    f->model.process.command = (struct wg_strings){0};
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    wg_target_free(f->target);
    wg_keeper_free(f->keeper);
    wg_loop_free(f->loop);
    clear_command(f);
    assert_int_equal(f->config.refs, 1);
    log_capture_end();
    free(f);
    return 0;
}

static struct wg_target *new_target(struct fixture *f, const struct wg_config_model *model,
                                    struct watch *watch)
{
    const struct wg_target_env env = {.loop = f->loop, .keeper = f->keeper};
    struct wg_target *target = wg_target_new(&env, &f->config, model, &watch_handler, watch);
    assert_non_null(target);
    assert_true(wg_target_wakes(model));
    return target;
}

static void make(struct fixture *f, uint16_t port, const char *const *command)
{
    static char name[] = "qwen", empty[] = "";
    size_t n = 0;
    while (command[n])
        n++;
    clear_command(f);
    f->model.name = name;
    f->model.target = WG_TARGET_PROCESS;
    f->model.process.port = port;
    f->model.process.working_dir = empty;
    f->model.process.stop_timeout = 10 * WG_USEC_PER_SEC;
    f->model.process.command = (struct wg_strings){.items = wg_xcalloc(n, sizeof(char *)), .n = n};
    for (size_t i = 0; i < n; i++)
        f->model.process.command.items[i] = wg_xstrdup(command[i]);
    f->target = new_target(f, &f->model, &f->watch);
}

#define MAKE(f, port, ...) make(f, port, (const char *const[]){__VA_ARGS__, NULL})

static bool until(struct fixture *f, bool (*is_true)(void *arg))
{
    return loop_until(f->loop, is_true, &f->watch, patience);
}

static bool connects(const struct watch *watch)
{
    const int fd = socket(watch->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool connected = connect(fd, (const struct sockaddr *)&watch->sa, watch->sa_len) == 0;
    close(fd);
    return connected;
}

/* Listens on a port of its own choice if 0. */
static int stranger(uint16_t *port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* The pid of the only process of the keeper. */
static pid_t only_child(const struct fixture *f)
{
    struct tree tree;
    pid_t pid = 0;
    assert_int_equal(tree_read(&tree), 0);
    for (size_t i = 0; i < tree.n; i++)
        if (tree.items[i].parent == keeper_pid(f->keeper))
            pid = tree.items[i].pid;
    tree_clear(&tree);
    return pid;
}

static void test_up_and_down(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, SERVER);
    wg_target_wake(f->target);
    wg_target_wake(f->target);
    assert_int_equal(f->watch.phases[WG_PHASE_STARTED], 0); /* nobody is called from inside his call */
    assert_true(until(f, watch_is_found));
    assert_int_equal(f->watch.phases[WG_PHASE_STARTED], 1);
    assert_int_equal(f->watch.phases[WG_PHASE_LISTENING], 1);
    assert_true(strncmp(f->watch.address, "127.0.0.1:", 10) == 0);
    assert_true(connects(&f->watch));
    wg_target_wake(f->target);

    wg_target_sleep(f->target);
    wg_target_sleep(f->target);
    assert_int_equal(f->watch.lost, 0);
    assert_true(until(f, watch_is_asleep));
    assert_int_equal(f->watch.found, 1);
    assert_int_equal(f->watch.lost, 1);
    assert_false(connects(&f->watch));
    assert_int_equal(only_child(f), 0);
    loop_for(f->loop, 20 * WG_USEC_PER_MSEC);
    assert_int_equal(f->watch.asleep, 1);
    assert_int_equal(f->watch.failed, 0);
}

static void test_sleep_of_a_sleeper(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, SERVER);
    wg_target_sleep(f->target);
    assert_int_equal(f->watch.asleep, 0);
    assert_true(until(f, watch_is_asleep));
    assert_int_equal(only_child(f), 0);
}

/* The server is a grandchild, behind a wrapper that waits. */
static void test_behind_a_wrapper(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, "/bin/sh", "-c", PYTHON " -m http.server --bind 127.0.0.1 {port} & wait");
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    wg_target_sleep(f->target);
    assert_true(until(f, watch_is_asleep));
    assert_false(connects(&f->watch));
}

static void test_port_in_use(void **state)
{
    struct fixture *f = *state;
    uint16_t port = 0;
    char text[64];
    const int fd = stranger(&port);
    MAKE(f, port, SERVER);
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_failed));
    snprintf(text, sizeof(text), "port %u is already in use by another process", port);
    assert_string_equal(f->watch.why, text);
    assert_int_equal(only_child(f), 0);
    close(fd);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    assert_int_equal(f->watch.failed, 1);
}

static bool watch_has_started(void *arg)
{
    return ((const struct watch *)arg)->phases[WG_PHASE_STARTED] > 0;
}

static void test_stranger_on_the_port(void **state)
{
    struct fixture *f = *state;
    uint16_t port = port_choose(f->keeper);
    char text[96];
    MAKE(f, port, "sleep", "300");
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_started));
    const int fd = stranger(&port);
    assert_true(until(f, watch_has_failed));
    snprintf(text, sizeof(text), "port %u is taken by another process (pid %d)", port, getpid());
    assert_string_equal(f->watch.why, text);
    wg_target_sleep(f->target);
    assert_true(until(f, watch_is_asleep));
    assert_int_equal(only_child(f), 0);
    assert_int_equal(f->watch.found, 0);
    close(fd);
}

static void test_port_of_another_model(void **state)
{
    struct fixture *f = *state;
    const uint16_t port = port_choose(f->keeper);
    char text[64];
    MAKE(f, port, SERVER);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    struct watch watch = {0};
    struct wg_target *other = new_target(f, &f->model, &watch);
    wg_target_wake(other);
    assert_true(loop_until(f->loop, watch_has_failed, &watch, patience));
    snprintf(text, sizeof(text), "port %u is in use by the model qwen", port);
    assert_string_equal(watch.why, text);
    wg_target_free(other);
}

static void test_chosen_ports_differ(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, SERVER);
    struct watch watch = {0};
    struct wg_target *other = new_target(f, &f->model, &watch);
    wg_target_wake(f->target);
    wg_target_wake(other);
    assert_true(until(f, watch_is_found));
    assert_true(loop_until(f->loop, watch_is_found, &watch, patience));
    assert_string_not_equal(f->watch.address, watch.address);
    wg_target_free(other);
}

/* Told with its port, in each wake anew, until something listens. */
static void test_nothing_listens_yet(void **state)
{
    struct fixture *f = *state;
    const uint16_t port = port_choose(f->keeper);
    char expected[64];
    snprintf(expected, sizeof(expected), "nothing listens on 127.0.0.1:%u yet", (unsigned)port);
    MAKE(f, port, PYTHON, "-c",
         "import socket, time\n"
         "s = socket.socket(); s.bind(('127.0.0.1', {port}))\n"
         "time.sleep(0.5); s.listen(); time.sleep(300)");
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_trouble));
    assert_string_equal(f->watch.why, expected);
    f->watch.trouble = 0;
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_trouble));
    assert_string_equal(f->watch.why, expected);
    assert_true(until(f, watch_is_found));
    assert_string_equal(f->watch.why, "");
}

static void test_ACT_09_exit_while_loading(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, "/bin/sh", "-c", "echo loading; echo 'error: no such model' >&2; exit 1");
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_failed));
    assert_string_equal(
        f->watch.why,
        "the process exited with status 1 while loading; its last output: error: no such model");
    assert_int_equal(f->watch.found, 0);
    assert_true(log_capture_has("info process qwen: loading\n"));
    static const char detail[] = "the process exited with status 1 while loading; its last output: "
                                 "loading | error: no such model";
    loop_for(f->loop, 0);
    assert_string_equal(f->watch.detail, detail);
    assert_true(log_capture_has(detail));
}

static void test_killed_while_loading(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, "/bin/sh", "-c", "kill -9 $$");
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_failed));
    assert_string_equal(f->watch.why, "the process was killed by signal 9 (Killed) while loading");
}

static void test_no_such_program(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, "no-such-server", "--port", "{port}");
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_failed));
    assert_string_equal(f->watch.why,
                        "the process could not be started: no-such-server: No such file or directory");
    assert_int_equal(f->watch.phases[WG_PHASE_STARTED], 0);
    wg_target_wake(f->target);
    loop_for(f->loop, 50 * WG_USEC_PER_MSEC);
    assert_int_equal(f->watch.failed, 2);
}

static void test_command_too_long(void **state)
{
    struct fixture *f = *state;
    char *large = wg_xcalloc(70001, 1);
    memset(large, 'a', 70000);
    MAKE(f, 0, "server", large);
    free(large);
    wg_target_wake(f->target);
    assert_int_equal(f->watch.failed, 0);
    assert_true(until(f, watch_has_failed));
    assert_string_equal(
        f->watch.why,
        "the process could not be started: the command and its environment are longer than 64 KiB");
}

static void test_ACT_09_lost_and_woken_again(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, SERVER);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    kill(only_child(f), SIGKILL);
    assert_true(until(f, watch_has_lost));
    assert_ptr_equal(strstr(f->watch.why, "the process was killed by signal 9 (Killed)"), f->watch.why);
    wg_target_wake(f->target); /* whether it is already gone or not */
    assert_true(until(f, watch_is_found));
    assert_int_equal(f->watch.found, 2);
    assert_int_equal(f->watch.failed + f->watch.asleep, 0);
    assert_int_equal(f->watch.phases[WG_PHASE_STARTED], 2);
    wg_target_wake(f->target); /* already up */
    loop_for(f->loop, 20 * WG_USEC_PER_MSEC);
    assert_int_equal(f->watch.found, 2);
    assert_int_equal(f->watch.phases[WG_PHASE_STARTED], 3);
}

static void test_sleep_during_wake(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, "sleep", "300");
    wg_target_wake(f->target);
    wg_target_sleep(f->target); /* before it has started */
    assert_true(until(f, watch_is_asleep));
    wg_target_wake(f->target);
    f->watch.phases[WG_PHASE_STARTED] = 0;
    assert_true(until(f, watch_has_started));
    wg_target_sleep(f->target); /* while it loads */
    f->watch.asleep = 0;
    assert_true(until(f, watch_is_asleep));
    assert_int_equal(f->watch.failed + f->watch.found, 0);
    assert_int_equal(only_child(f), 0);
}

static void test_wake_during_sleep(void **state)
{
    struct fixture *f = *state;
    const uint16_t port = port_choose(f->keeper);
    MAKE(f, port, SERVER);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    wg_target_sleep(f->target);
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_lost));
    assert_true(until(f, watch_is_found));
    assert_int_equal(f->watch.found, 2);
    assert_int_equal(f->watch.asleep + f->watch.failed, 0);
    assert_true(connects(&f->watch));

    wg_target_sleep(f->target);
    wg_target_wake(f->target);
    wg_target_sleep(f->target); /* the last word counts */
    assert_true(until(f, watch_is_asleep));
    loop_for(f->loop, 50 * WG_USEC_PER_MSEC);
    assert_int_equal(f->watch.found, 2);
    assert_int_equal(only_child(f), 0);
}

/* A failure that was not told yet is none of the next wake's. */
static void test_wake_after_an_untold_failure(void **state)
{
    struct fixture *f = *state;
    uint16_t port = 0;
    const int fd = stranger(&port);
    MAKE(f, port, SERVER);
    wg_target_wake(f->target);
    close(fd);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    assert_int_equal(f->watch.failed, 0);
}

/* The next target of the same port waits until the process of the old one is gone. */
static void test_free_stops_in_the_background(void **state)
{
    struct fixture *f = *state;
    const uint16_t port = port_choose(f->keeper);
    MAKE(f, port, "/bin/sh", "-c",
         "trap '' TERM; " PYTHON
         " -c 'import signal, sys; signal.signal(15, signal.SIG_IGN); sys.argv = [\"\", "
         "\"--bind\", \"127.0.0.1\", \"{port}\"]; import runpy; runpy.run_module(\"http.server\", "
         "run_name=\"__main__\")'; wait");
    f->model.process.stop_timeout = 300 * WG_USEC_PER_MSEC;
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    const struct watch before = f->watch;
    char told[80];
    snprintf(told, sizeof(told), "port %u is still in use by a process that is being stopped", port);
    f->target = wg_target_free(f->target);

    struct watch watch = {0};
    f->target = new_target(f, &f->model, &watch);
    wg_target_wake(f->target);
    assert_true(loop_until(f->loop, watch_has_trouble, &watch, patience));
    assert_string_equal(watch.why, told);
    assert_true(loop_until(f->loop, watch_is_found, &watch, patience));
    assert_int_equal(watch.failed, 0);
    assert_memory_equal(&before, &f->watch, sizeof(before));
}

static void test_free_from_inside_a_handler(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, SERVER);
    f->watch.free_in_found = f->target;
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    f->target = NULL;
}

static void test_death_of_the_keeper(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, SERVER);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    kill(keeper_pid(f->keeper), SIGKILL);
    assert_true(until(f, watch_has_lost));
    assert_ptr_equal(strstr(f->watch.why, "the process was lost with the process keeper"), f->watch.why);
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_failed));
    assert_string_equal(f->watch.why, "the process could not be started: the process keeper has died; "
                                      "restart Wakegate");
    assert_true(log_capture_has("error process: the process keeper"));
}

static void test_listening_is_told_at_once(void **state)
{
    struct fixture *f = *state;
    MAKE(f, 0, PYTHON, "-c",
         "import socket, time\n"
         "s = socket.socket(); s.bind(('127.0.0.1', {port}))\n"
         "time.sleep(0.2)\n"
         "s.listen(); print('t=%d.' % (time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6), flush=True)\n"
         "time.sleep(300)");
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    const wg_usec found = wg_clock_monotonic();
    loop_for(f->loop, 20 * WG_USEC_PER_MSEC);
    char *text = log_capture_text();
    const char *at = strstr(text, "t=");
    assert_non_null(at);
    assert_true(found - strtoll(at + 2, NULL, 10) < 500 * WG_USEC_PER_MSEC);
    free(text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_up_and_down),
        TEST(test_sleep_of_a_sleeper),
        TEST(test_behind_a_wrapper),
        TEST(test_port_in_use),
        TEST(test_stranger_on_the_port),
        TEST(test_port_of_another_model),
        TEST(test_chosen_ports_differ),
        TEST(test_nothing_listens_yet),
        TEST(test_ACT_09_exit_while_loading),
        TEST(test_killed_while_loading),
        TEST(test_no_such_program),
        TEST(test_command_too_long),
        TEST(test_ACT_09_lost_and_woken_again),
        TEST(test_sleep_during_wake),
        TEST(test_wake_during_sleep),
        TEST(test_wake_after_an_untold_failure),
        TEST(test_free_stops_in_the_background),
        TEST(test_free_from_inside_a_handler),
        TEST(test_death_of_the_keeper),
        TEST(test_listening_is_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
