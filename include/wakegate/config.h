/* The typed configuration: loaded and validated as a whole, then immutable and counted; any thread may read
 * it while it holds a reference. Values and defaults are those of the reference (docs/configuration.md, made
 * from the table of options). */
#pragma once

#include <netinet/in.h>
#include <regex.h>
#include <sys/socket.h>

#include "wakegate/base/buf.h"
#include "wakegate/base/clock.h"
#include "wakegate/base/log.h"

enum wg_target_kind { WG_TARGET_PROCESS, WG_TARGET_STATIC };
enum wg_probe_kind { WG_PROBE_CHAT, WG_PROBE_COMPLETIONS, WG_PROBE_EMBEDDINGS, WG_PROBE_TCP };

/* A list of strings. */
struct wg_strings {
    char **items;
    size_t n;
};

/* A socket address with its text ("127.0.0.1:8080", "[::1]:8080"). */
struct wg_address {
    struct sockaddr_storage sa;
    socklen_t len;
    char *text;
};

struct wg_cidr {
    int family; /* AF_INET, AF_INET6 */
    uint8_t bytes[16];
    unsigned bits;
};

struct wg_key {
    uint8_t sha256[32];
    char *file; /* where it was read from, as configured; "" or NULL: given otherwise */
    char *san;  /* instead of a hash: a name in a client's certificate; "" or NULL: none */
};

struct wg_config_hook {
    char *method; /* "POST" */
    char *url;    /* "" = none */
};

struct wg_config_process {
    struct wg_strings command; /* argv; "{port}" in any word is replaced by the port */
    uint16_t port;             /* 0 = chosen at each start */
    wg_usec stop_timeout;
    char *working_dir;     /* "" = Wakegate's own */
    struct wg_strings env; /* "NAME=value", in addition to Wakegate's own environment */
};

/* Host and port of one static endpoint, as written: a name is resolved later, off the data path. */
struct wg_config_endpoint {
    char *host;
    uint16_t port;
};

struct wg_config_static {
    struct wg_config_endpoint *endpoints;
    size_t n_endpoints;
    struct wg_config_hook wake, sleep;
};

struct wg_config_probe {
    enum wg_probe_kind kind;
    char *prompt;
    unsigned max_tokens;
    char *path;           /* never empty: the default of the kind is filled in ("" for tcp) */
    char *body;           /* "" = made from kind, prompt, max_tokens */
    char *expect;         /* "" = none */
    regex_t expect_regex; /* compiled when expect is not empty; REG_EXTENDED | REG_NOSUB; regexec may be
                             called by any thread */
    wg_usec connect_interval, interval, timeout;
};

struct wg_config_model {
    char *name;
    struct wg_strings aliases;
    char *upstream_model;
    enum wg_target_kind target;
    struct wg_config_process process; /* when target says so */
    struct wg_config_static static_;
    char *upstream_key; /* "" = none; secret; the file's content, trimmed */
    char *upstream_key_file;
    struct wg_config_probe probe;
    struct {
        wg_usec timeout, backoff, max_backoff;
    } wake;
    struct {
        wg_usec timeout, silent_timeout, busy_timeout;
        uint64_t max_requests, max_bytes;
        wg_usec heartbeat_after, heartbeat_every; /* after 0 = never */
    } hold;
    uint64_t max_body_bytes;
    struct wg_strings paths; /* "*" stands for one segment */
    struct {
        unsigned per_endpoint, ramp_start;
    } concurrency;
    struct {
        wg_usec connect, first_byte, idle, reuse;
    } timeouts;
    wg_usec idle_timeout; /* WG_USEC_NEVER: never */
    unsigned min_replicas;
    bool preload;
    unsigned index; /* its place in wg_config.models */
};

/* Names of files as they can be opened: a relative one counts from the folder of the configuration file. */
struct wg_config_certificate {
    char *cert_file, *key_file;
};

struct wg_config_tls {
    char *cert_file, *key_file; /* cert_file "": no TLS */
    struct wg_config_certificate
        *certificates; /* more of them, chosen by the name that the client asks for */
    size_t n_certificates;
    char *client_ca_file; /* "": clients are not asked for certificates */
};

struct wg_config_listener {
    struct wg_address address;
    struct wg_config_tls tls;
};

struct wg_config_tenant {
    char *name;
    struct wg_key *keys; /* of `sha256`, `file` and `san` entries alike; secret only as far as hashes are */
    size_t n_keys;
    struct wg_strings models; /* names, or "*" */
    int priority;
    unsigned weight;
    unsigned index; /* its place in wg_config.tenants */
};

struct wg_config {
    _Atomic unsigned refs;
    char *path; /* the file; "" when made from text */
    struct wg_config_listener *listeners;
    size_t n_listeners;
    struct {
        struct wg_address address;
        struct wg_key *keys;
        size_t n_keys;
    } admin;
    unsigned workers; /* 0 = auto */
    struct {
        enum wg_log_level level;
        enum wg_log_format format;
        bool access;
    } log;
    struct {
        wg_usec delay, grace;
    } shutdown;
    struct {
        uint64_t max_held_bytes, max_connections, max_streams, max_header_bytes;
        wg_usec header_timeout, body_idle_timeout, write_idle_timeout, idle_timeout;
    } limits;
    struct wg_cidr *trusted_peers;
    size_t n_trusted_peers;
    struct wg_config_model *models;
    size_t n_models;
    struct wg_config_tenant *tenants; /* with none configured: one open tenant called "default" */
    size_t n_tenants;
    bool open; /* no tenants configured: every request is the tenant "default", keys are not looked at */
    bool anonymous_allow; /* requests without a key belong to the tenant "anonymous", if there is one */
    struct {
        unsigned default_max_tokens, per_image;
    } tokens;
    struct wg_map *by_name; /* model and alias names -> struct wg_config_model */
    struct wg_map *by_key;  /* 32 raw bytes of sha256 -> struct wg_config_tenant */
    struct wg_map
        *by_san; /* names in certificates, in lower case where they are those of hosts -> the same */
};

/* One fault: "FILE:LINE: key.path: what is wrong". */
struct wg_config_faults {
    struct wg_buf text;        /* one fault a line */
    unsigned errors, warnings; /* warnings begin with "warning: " behind the key path */
};
void wg_config_faults_clear(struct wg_config_faults *faults);

/* Reads and validates the file: 0 and a reference in *ret_config; -EINVAL with all faults found in `faults`;
 * a file that cannot be read is a fault too. `faults` may hold warnings on success. Files that the
 * configuration names (keys) are read here as well. */
WG_MUST_CHECK int wg_config_load(const char *path, struct wg_config **ret_config,
                                 struct wg_config_faults *faults);
/* The same from text; `path` is only for messages. */
WG_MUST_CHECK int wg_config_parse(const char *path, struct wg_slice text, struct wg_config **ret_config,
                                  struct wg_config_faults *faults);

struct wg_config *wg_config_ref(struct wg_config *config);
/* NULL-safe, returns NULL. The last one frees and wipes secrets. */
struct wg_config *wg_config_unref(struct wg_config *config);

/* The effective configuration as YAML, defaults filled in, secrets as "<redacted>". */
int wg_config_print(const struct wg_config *config, struct wg_buf *out);
/* The reference in Markdown and the JSON Schema, both made from the table of options. */
int wg_config_reference(struct wg_buf *out);
int wg_config_schema(struct wg_buf *out);

/* What differs in options that need a restart (listeners, admin.address, workers): one "key.path" a line;
 * empty: nothing. */
void wg_config_restart_needed(const struct wg_config *was, const struct wg_config *is, struct wg_buf *out);
/* True if the models are the same as far as a running instance of their target is concerned (target, not
 * limits). */
bool wg_config_same_target(const struct wg_config_model *a, const struct wg_config_model *b);

/* By configured name or alias; NULL if unknown. */
const struct wg_config_model *wg_config_model(const struct wg_config *config, struct wg_slice name);
/* Whose `san` key this name of a verified client certificate is; NULL: nobody's. Names of hosts compare
 * without regard to case, URIs and e-mail addresses byte by byte. */
const struct wg_config_tenant *wg_config_tenant_of_san(const struct wg_config *config, struct wg_slice san);
/* True if the tenant's `models` has the model's name or "*". */
bool wg_config_tenant_may(const struct wg_config_tenant *tenant, const struct wg_config_model *model);
/* True if `path` (without the query) is one of the model's paths, "*" standing for one segment. */
bool wg_config_path_allowed(const struct wg_config_model *model, struct wg_slice path);
bool wg_cidr_contains(const struct wg_cidr *cidrs, size_t n, const struct sockaddr *address);

/* "host:port", "[v6]:port", or ":port" (all addresses); numeric hosts only: 0 or -EINVAL. text is allocated.
 */
WG_MUST_CHECK int wg_address_parse(struct wg_slice text, struct wg_address *ret_address);
void wg_address_clear(struct wg_address *address);
