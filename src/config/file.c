/* Bounded reading of files; whoever reads a secret leaves no copy of it behind. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_MAX = 4096 };

static int read_all(int fd, struct wg_buf *out)
{
    char chunk[4096];
    ssize_t n;

    while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        int r = wg_buf_add(out, chunk, (size_t)n);
        explicit_bzero(chunk, (size_t)n);
        if (r < 0)
            return r == -ENOSPC ? -EFBIG : r;
    }
    return 0;
}

int file_read(const char *path, struct wg_buf *out)
{
    int fd WG_AUTO_CLOSE = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    return fd < 0 ? -errno : read_all(fd, out);
}

char *file_wipe(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
    return NULL;
}

/* O_NONBLOCK: a pipe without a writer must not stop us before we see that it is one. */
static const char *open_regular(const char *path, int *ret_fd, struct stat *ret_st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    *ret_fd = fd;
    if (fd < 0 || fstat(fd, ret_st) < 0)
        return strerrordesc_np(errno);
    return S_ISREG(ret_st->st_mode) ? NULL : "not a regular file";
}

const char *file_unreadable(const char *path)
{
    struct stat st;
    int fd WG_AUTO_CLOSE = -1;

    return open_regular(path, &fd, &st);
}

static const char *read_small(const char *path, struct wg_buf *out)
{
    struct stat st = {0};
    int fd WG_AUTO_CLOSE = -1;
    const char *wrong = open_regular(path, &fd, &st);

    if (wrong != NULL)
        return wrong;
    int r = st.st_size > SECRET_MAX ? -EFBIG : read_all(fd, out);
    if (r == -EFBIG)
        return "larger than 4096 bytes, which no key is";
    return r < 0 ? strerrordesc_np(-r) : NULL;
}

static bool white(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* What a client can send as a key: visible ASCII. */
static const char *check_secret(struct wg_slice secret)
{
    if (secret.len == 0)
        return "empty";
    for (size_t i = 0; i < secret.len; i++)
        if ((unsigned char)secret.ptr[i] <= ' ' || (unsigned char)secret.ptr[i] >= 0x7f)
            return "not one key: spaces, line ends and what is not ASCII can be no part of it";
    return NULL;
}

char *file_beside(const char *config_path, const char *name)
{
    const char *slash = strrchr(config_path, '/');
    size_t folder = name[0] == '/' || slash == NULL ? 0 : (size_t)(slash - config_path) + 1;

    return wg_xasprintf("%.*s%s", (int)folder, config_path, name);
}

char *file_read_secret(const char *config_path, const char *name, const char **ret_wrong)
{
    char *path WG_AUTO_FREE = file_beside(config_path, name);
    struct wg_buf content = WG_BUF_INIT(SECRET_MAX);
    char *secret = NULL;

    wg_buf_reserve(&content, SECRET_MAX); /* so that growing leaves no copies */
    const char *wrong = read_small(path, &content);
    if (wrong == NULL) {
        struct wg_slice text = wg_buf_slice(&content);
        for (; text.len > 0 && white(text.ptr[0]); text.ptr++)
            text.len--;
        while (text.len > 0 && white(text.ptr[text.len - 1]))
            text.len--;
        wrong = check_secret(text);
        if (wrong == NULL)
            secret = wg_slice_dup(text);
    }
    if (content.data != NULL)
        explicit_bzero(content.data, content.cap);
    wg_buf_clear(&content);
    if (wrong != NULL)
        *ret_wrong = wrong;
    return secret;
}
