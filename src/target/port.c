/* Finds a free port, and whose process listens on one: knocking would disturb a server that serves one
 * connection at a time, and binding would be in the way of one that is about to. */
#include "port.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "keeper.h"
#include "listeners.h"
#include "tree.h"

enum {
    CHOICE_TRIES = 64,
    PORT_LOWEST = 20000,
    PORT_HIGHEST = 65535,
    LISTENERS_MAX = 8,
};

/* The range of the ports that the system gives to outgoing connections. */
static void system_range(unsigned *ret_low, unsigned *ret_high)
{
    unsigned low, high;
    *ret_low = 32768;
    *ret_high = 60999;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (!file)
        return;
    if (fscanf(file, "%u %u", &low, &high) == 2) {
        *ret_low = low;
        *ret_high = high;
    }
    fclose(file);
}

/* Binds 127.0.0.1; the port that it got, 0 if it cannot be had. */
static uint16_t try_bind(uint16_t port)
{
    WG_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    if (fd < 0)
        return 0;
    /* Like any server: closed connections that linger are no hindrance. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return 0;
    return ntohs(address.sin_port);
}

bool port_is_free(uint16_t port)
{
    return try_bind(port) == port;
}

uint16_t port_choose(const struct wg_keeper *keeper)
{
    unsigned low, high;
    system_range(&low, &high);
    unsigned first = PORT_LOWEST, last = low > 0 ? low - 1 : 0;
    if (last < first + CHOICE_TRIES) {
        first = high + 1;
        last = PORT_HIGHEST;
    }
    const bool outside = last >= first + CHOICE_TRIES && last <= PORT_HIGHEST;
    for (int i = 0; i < CHOICE_TRIES; i++) {
        unsigned random = 0;
        bool stopping;
        if (getrandom(&random, sizeof(random), 0) < 0)
            random = (unsigned)wg_clock_monotonic();
        const unsigned wish = outside ? first + random % (last - first + 1) : 0;
        const uint16_t port = try_bind((uint16_t)wish);
        if (port != 0 && !keeper_port_holder(keeper, port, &stopping))
            return port;
    }
    return 0;
}

/* 1: the process has the socket open; 0: it does not; -1: that cannot be seen. */
static int has_socket(pid_t pid, unsigned long inode)
{
    char path[64], wanted[32];
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    DIR *dir = opendir(path);
    if (!dir)
        return errno == EACCES || errno == EPERM ? -1 : 0;
    int found = 0;
    const struct dirent *entry;
    while (found == 0 && (entry = readdir(dir))) {
        char link[32];
        const ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);
        if (len <= 0)
            continue;
        link[len] = '\0';
        found = strcmp(link, wanted) == 0;
    }
    closedir(dir);
    return found;
}

/* Container runtimes listen in the name of what we started, from outside of its tree. */
static bool is_forwarder(pid_t pid)
{
    static const char *const names[] = {"docker-proxy", "rootlessport", "rootlesskit", "slirp4netns",
                                        "pasta"};
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const bool read_it = fgets(name, sizeof(name), file) != NULL;
    fclose(file);
    for (size_t i = 0; read_it && i < WG_COUNT_OF(names); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Looks among the members of the leader's tree, or among all others; the first that has the socket. */
static const struct tree_process *find_owner(const struct tree *tree, unsigned long inode, pid_t leader,
                                             bool member, bool *ret_hidden)
{
    bool hidden = false;
    for (size_t i = 0; i < tree->n; i++) {
        const struct tree_process *process = &tree->items[i];
        if (tree_is_member(tree, process, leader) != member)
            continue;
        const int has = has_socket(process->pid, inode);
        if (has > 0)
            return process;
        hidden = hidden || has < 0;
    }
    *ret_hidden = hidden;
    return NULL;
}

static enum port_owner judge(const struct tree *tree, unsigned long inode, pid_t leader_pid,
                             pid_t *ret_stranger)
{
    bool hidden, ignored;
    if (find_owner(tree, inode, leader_pid, true, &hidden))
        return PORT_OURS;
    const struct tree_process *leader = tree_find(tree, leader_pid);
    const struct tree_process *other = find_owner(tree, inode, leader_pid, false, &ignored);
    if (!other && hidden)
        return PORT_OURS;
    if (other && leader && other->started >= leader->started && is_forwarder(other->pid))
        return PORT_OURS;
    *ret_stranger = other ? other->pid : 0;
    return PORT_STRANGER;
}

enum port_owner port_owner(uint16_t port, pid_t leader, struct wg_address *ret_address, pid_t *ret_stranger)
{
    struct listener listeners[LISTENERS_MAX];
    struct tree tree;
    const size_t n = listeners_find(port, listeners, LISTENERS_MAX);
    if (n == 0 || tree_read(&tree) < 0)
        return PORT_SILENT;
    enum port_owner owner = PORT_SILENT;
    for (size_t i = 0; i < n && owner != PORT_OURS; i++) {
        owner = judge(&tree, listeners[i].inode, leader, ret_stranger);
        if (owner == PORT_OURS)
            address_loopback(listeners[i].family, port, ret_address);
    }
    tree_clear(&tree);
    return owner;
}
