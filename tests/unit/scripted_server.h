/* A tiny real HTTP server for tests: a process of its own that forks one more for each connection, reads
 * whole requests and leaves the answering, bytes and misbehaviour alike, to a function of the test. */
#pragma once

#include <arpa/inet.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Shared with the server's processes. */
struct scripted_seen {
    _Atomic int connections, requests;
    _Atomic int script;     /* for the answering function */
    char last[8192];        /* the newest request, whole */
    char peer[64], sni[64]; /* with TLS: the newest client's certificate's and wanted name */
};

struct scripted_server {
    pid_t pid;
    int listener;
    uint16_t port;
    struct scripted_seen *seen;
};

/* Puts something between the connection and who answers; its own end of it. */
typedef int scripted_wrap(int fd, void *arg, struct scripted_seen *seen);

/* Answers one request; false closes the connection. */
typedef bool scripted_answer(int fd, const char *request, struct scripted_seen *seen);

static inline bool scripted_send(int fd, const char *text)
{
    return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* Sends an answer with a Content-Length; keeps the connection. */
static inline bool scripted_reply(int fd, const char *status, const char *body)
{
    char text[4096];
    snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s", status, strlen(body), body);
    return scripted_send(fd, text);
}

static inline void scripted_reset(int fd)
{
    const struct linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

/* True until the peer has closed. */
static inline void scripted_wait_close(int fd)
{
    char c;
    while (recv(fd, &c, 1, 0) > 0)
        ;
}

static inline bool scripted_complete(const char *request, size_t len)
{
    const char *end = strstr(request, "\r\n\r\n");
    if (!end)
        return false;
    const char *length = strcasestr(request, "\r\ncontent-length:");
    const size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    return len >= (size_t)(end + 4 - request) + body;
}

static inline void scripted_connection(int fd, scripted_answer *answer, struct scripted_seen *seen)
{
    char request[sizeof(seen->last)];
    for (;;) {
        size_t len = 0;
        request[0] = '\0';
        while (!scripted_complete(request, len)) {
            const ssize_t n = recv(fd, request + len, sizeof(request) - 1 - len, 0);
            if (n <= 0)
                return;
            len += (size_t)n;
            request[len] = '\0';
        }
        memcpy(seen->last, request, len + 1);
        atomic_fetch_add(&seen->requests, 1);
        if (!answer(fd, request, seen))
            return;
    }
}

static inline void scripted_run_wrapped(int listener, scripted_answer *answer, struct scripted_seen *seen,
                                        scripted_wrap *wrap, void *arg)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        const int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            _exit(1);
        atomic_fetch_add(&seen->connections, 1);
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(listener);
            scripted_connection(wrap ? wrap(fd, arg, seen) : fd, answer, seen);
            _exit(0);
        }
        close(fd);
    }
}

static inline void scripted_run(int listener, scripted_answer *answer, struct scripted_seen *seen)
{
    scripted_run_wrapped(listener, answer, seen, NULL, NULL);
}

static inline struct scripted_server scripted_start_wrapped(scripted_answer *answer, scripted_wrap *wrap,
                                                            void *arg)
{
    struct scripted_server server = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    if (bind(server.listener, (struct sockaddr *)&address, len) < 0 || listen(server.listener, 64) < 0 ||
        getsockname(server.listener, (struct sockaddr *)&address, &len) < 0)
        abort();
    server.port = ntohs(address.sin_port);
    server.seen = mmap(NULL, sizeof(*server.seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (server.seen == MAP_FAILED)
        abort();
    server.pid = fork();
    if (server.pid == 0)
        scripted_run_wrapped(server.listener, answer, server.seen, wrap, arg);
    return server;
}

static inline struct scripted_server scripted_start(scripted_answer *answer)
{
    return scripted_start_wrapped(answer, NULL, NULL);
}

static inline void scripted_stop(struct scripted_server *server)
{
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    close(server->listener);
    munmap(server->seen, sizeof(*server->seen));
}
