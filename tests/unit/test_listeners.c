/* Who listens on a port, by both ways to ask the kernel: each kind of address, nobody, and sockets that do
 * not listen. */
#include "unit.h"

/* The source itself: the way by /proc is reached on other kernels only. */
#include "../../src/target/listeners.c"

#include <arpa/inet.h>
#include <sys/stat.h>
#include <unistd.h>

struct socket_case {
    int family;
    const char *host;
    bool v6_only;
    int want; /* the family that leads to it; AF_UNSPEC: it is not to be found */
};

static const struct socket_case cases[] = {
    {AF_INET, "127.0.0.1", false, AF_INET},
    {AF_INET, "0.0.0.0", false, AF_INET},
    {AF_INET, "127.0.0.2", false, AF_UNSPEC},
    {AF_INET6, "::1", true, AF_INET6},
    {AF_INET6, "::", true, AF_INET6},
    {AF_INET6, "::", false, AF_INET},
    {AF_INET6, "::ffff:127.0.0.1", false, AF_INET},
};

static int open_socket(const struct socket_case *c, bool listening, uint16_t *ret_port)
{
    struct sockaddr_storage storage = {.ss_family = (sa_family_t)c->family};
    void *ip = c->family == AF_INET ? (void *)&((struct sockaddr_in *)&storage)->sin_addr
                                    : (void *)&((struct sockaddr_in6 *)&storage)->sin6_addr;
    socklen_t len = c->family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    const int v6_only = c->v6_only;
    const int fd = socket(c->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (c->family == AF_INET6)
        assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only)), 0);
    assert_int_equal(inet_pton(c->family, c->host, ip), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&storage, len), 0);
    if (listening)
        assert_int_equal(listen(fd, 1), 0);
    len = sizeof(storage);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&storage, &len), 0);
    *ret_port = ntohs(((struct sockaddr_in *)&storage)->sin_port); /* at the same place in both */
    return fd;
}

static size_t find_by_proc(uint16_t port, struct listener *listeners, size_t max)
{
    struct found found = {.listeners = listeners, .max = max};
    read_table("/proc/net/tcp", AF_INET, port, &found);
    read_table("/proc/net/tcp6", AF_INET6, port, &found);
    return found.n;
}

static void check(size_t n, const struct listener *found, int fd, int want)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(n, want == AF_UNSPEC ? 0 : 1);
    if (n == 0)
        return;
    assert_int_equal(found[0].inode, st.st_ino);
    assert_int_equal(found[0].family, want);
}

static void test_by_diagnosis(void **state WG_UNUSED)
{
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        uint16_t port;
        struct listener found[4];
        const int fd = open_socket(&cases[i], true, &port);
        struct found asked = {.listeners = found, .max = 4};
        assert_int_equal(ask_kernel(AF_INET, port, &asked), 0);
        assert_int_equal(ask_kernel(AF_INET6, port, &asked), 0);
        check(asked.n, found, fd, cases[i].want);
        check(listeners_find(port, found, 4), found, fd, cases[i].want);
        close(fd);
        assert_int_equal(listeners_find(port, found, 4), 0);
    }
}

static void test_by_proc(void **state WG_UNUSED)
{
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        uint16_t port;
        struct listener found[4];
        const int fd = open_socket(&cases[i], true, &port);
        const bool told_as_dual = cases[i].v6_only && strcmp(cases[i].host, "::") == 0;
        check(find_by_proc(port, found, 4), found, fd, told_as_dual ? AF_INET : cases[i].want);
        close(fd);
    }
}

static void test_bound_is_not_listening(void **state WG_UNUSED)
{
    uint16_t port;
    struct listener found[4];
    const int fd = open_socket(&cases[0], false, &port);
    assert_int_equal(listeners_find(port, found, 4), 0);
    assert_int_equal(find_by_proc(port, found, 4), 0);
    close(fd);
}

static void test_no_more_than_asked_for(void **state WG_UNUSED)
{
    uint16_t port;
    struct listener found[1] = {{0}};
    const int fd = open_socket(&cases[1], true, &port);
    assert_int_equal(listeners_find(port, found, 0), 0);
    assert_int_equal(found[0].inode, 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_diagnosis),
        cmocka_unit_test(test_by_proc),
        cmocka_unit_test(test_bound_is_not_listening),
        cmocka_unit_test(test_no_more_than_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
