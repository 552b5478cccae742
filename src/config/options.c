/* The table of options itself, and finding one's way in it. Rows of one section stand together, in the order
 * in which people read them. */
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "value.h"

#define MSEC WG_USEC_PER_MSEC
#define SEC  WG_USEC_PER_SEC
#define HOUR (3600 * SEC)
#define DAY  (24 * HOUR)
#define KI   INT64_C(1024)
#define MI   (1024 * KI)
#define GI   (1024 * MI)
#define TI   (1024 * GI)

#define ROOT(field_)      .offset = offsetof(struct wg_config, field_)
#define MODEL(field_)     .offset = offsetof(struct wg_config_model, field_)
#define TENANT(field_)    .offset = offsetof(struct wg_config_tenant, field_)
#define LISTENER(field_)  .offset = offsetof(struct wg_config_listener, field_)
#define PAIR(field_)      .offset = offsetof(struct wg_config_certificate, field_)
#define KEY(field_)       .offset = offsetof(struct wg_key, field_)
#define COUNT(of_, n_)    .count = offsetof(struct of_, n_)
#define RANGE(min_, max_) .min = (min_), .max = (max_)
#define LATER(path_, prose_)                                                                                 \
    {                                                                                                        \
        .path = (path_), .type = OPT_LATER, .prose = (prose_)                                                \
    }
#define LATER_BUT(path_, default_, prose_)                                                                   \
    {                                                                                                        \
        .path = (path_), .type = OPT_LATER, .fallback = (default_), .prose = (prose_)                        \
    }
#define SECTION(path_, prose_)                                                                               \
    {                                                                                                        \
        .path = (path_), .type = OPT_SECTION, .prose = (prose_)                                              \
    }

static bool tls_shown(const void *base)
{
    return ((const struct wg_config_listener *)base)->tls.cert_file[0] != '\0';
}

static bool tenants_shown(const void *base)
{
    return !((const struct wg_config *)base)->open;
}

static bool process_shown(const void *base)
{
    return ((const struct wg_config_model *)base)->target == WG_TARGET_PROCESS;
}

static bool static_shown(const void *base)
{
    return ((const struct wg_config_model *)base)->target == WG_TARGET_STATIC;
}

static bool key_file_shown(const void *base)
{
    return ((const struct wg_key *)base)->file[0] != '\0';
}

static bool key_san_shown(const void *base)
{
    const struct wg_key *key = base;
    return key->san && key->san[0] != '\0';
}

static bool key_hash_shown(const void *base)
{
    return !key_file_shown(base) && !key_san_shown(base);
}

#define KEY_ROWS(list_)                                                                                      \
    {.path = list_ "[].sha256",                                                                              \
     .type = OPT_SHA256,                                                                                     \
     .flags = OPTION_SECRET,                                                                                 \
     KEY(sha256),                                                                                            \
     .shown = key_hash_shown,                                                                                \
     .prose = "The SHA-256 of the key in 64 hexadecimal digits, as `wakegate key` prints it."},              \
    {                                                                                                        \
        .path = list_ "[].file", .type = OPT_STRING, .fallback = "", KEY(file), .shown = key_file_shown,     \
        .check = value_check_file,                                                                           \
        .prose = "A file that holds the key itself, of at most 4096 bytes; white space around it does not "  \
                 "count. "                                                                                   \
                 "A relative name counts from the folder of the configuration file."                         \
    }

const struct option options[] = {
    {.path = "listeners",
     .type = OPT_LIST,
     .flags = OPTION_RESTART,
     ROOT(listeners),
     COUNT(wg_config, n_listeners),
     .size = sizeof(struct wg_config_listener),
     .prose = "Where clients connect. Without any: `0.0.0.0:8080`, or `127.0.0.1:8080` while there are no "
              "tenants."},
    {.path = "listeners[].address",
     .type = OPT_ADDRESS,
     .flags = OPTION_RESTART | OPTION_REQUIRED,
     .prose = "Numeric address and port: `10.0.0.1:8080`, `[::1]:8080`, or `:8080` for all addresses. "
              "HTTP/1.1 and HTTP/2 on one port: in cleartext HTTP/2 begins with its preface (prior "
              "knowledge), with TLS "
              "it is agreed upon by ALPN. Port 0 lets the system choose."},
    {.path = "listeners[].tls",
     .type = OPT_SECTION,
     .shown = tls_shown,
     .prose = "TLS 1.2 and 1.3 for the clients of this listener. All files are PEM; a relative name counts "
              "from the folder "
              "of the configuration file. They are looked at twice a second: what has changed is taken over "
              "for new "
              "connections, and a pair that does not fit keeps the old one."},
    {.path = "listeners[].tls.certFile",
     .type = OPT_STRING,
     .flags = OPTION_REQUIRED,
     .fallback = "",
     LISTENER(tls.cert_file),
     .prose = "The certificate, and behind it those between it and the root."},
    {.path = "listeners[].tls.keyFile",
     .type = OPT_STRING,
     .flags = OPTION_REQUIRED,
     .fallback = "",
     LISTENER(tls.key_file),
     .prose = "Its private key, not encrypted."},
    {.path = "listeners[].tls.certificates",
     .type = OPT_LIST,
     LISTENER(tls.certificates),
     COUNT(wg_config_listener, tls.n_certificates),
     .size = sizeof(struct wg_config_certificate),
     .prose = "More of them, chosen by the name that the client asks for (SNI). The pair above answers a "
              "name that none has, and no name."},
    {.path = "listeners[].tls.certificates[].certFile",
     .type = OPT_STRING,
     .flags = OPTION_REQUIRED,
     .fallback = "",
     PAIR(cert_file),
     .prose = "As above."},
    {.path = "listeners[].tls.certificates[].keyFile",
     .type = OPT_STRING,
     .flags = OPTION_REQUIRED,
     .fallback = "",
     PAIR(key_file),
     .prose = "As above."},
    {.path = "listeners[].tls.clientCaFile",
     .type = OPT_STRING,
     .fallback = "",
     LISTENER(tls.client_ca_file),
     .prose = "With it clients must have a certificate that comes from one of these CAs."},

    SECTION("admin", "Health, metrics and status: a listener of its own, never that of clients."),
    {.path = "admin.address",
     .type = OPT_ADDRESS,
     .flags = OPTION_RESTART,
     .fallback = "127.0.0.1:9090",
     ROOT(admin.address),
     .prose = "As a listener's."},
    {.path = "admin.keys",
     .type = OPT_LIST,
     .flags = OPTION_ONE_OF,
     ROOT(admin.keys),
     COUNT(wg_config, admin.n_keys),
     .size = sizeof(struct wg_key),
     .prose = "Keys for what changes something (wake, sleep); needed for it when the address is not a "
              "loopback one."},
    KEY_ROWS("admin.keys"),
    LATER("admin.keys[].san", "A name in a client's certificate; the admin address has no TLS."),

    {.path = "workers",
     .type = OPT_UINT,
     .flags = OPTION_RESTART,
     .fallback = "auto",
     .words = "auto",
     RANGE(1, 256),
     ROOT(workers),
     .prose = "Threads that carry data; `auto` is the number of cores that the process may use."},
    LATER_BUT("stateDir", "", "Where token budgets survive restarts."),

    SECTION("log", "One line an event, on standard error."),
    {.path = "log.level",
     .type = OPT_CHOICE,
     .fallback = "info",
     .words = "error|warn|info|debug",
     ROOT(log.level),
     .prose = "The least important lines that are still written."},
    {.path = "log.format",
     .type = OPT_CHOICE,
     .fallback = "text",
     .words = "text|json",
     ROOT(log.format),
     .prose = "For people or for machines."},
    {.path = "log.access",
     .type = OPT_BOOL,
     .fallback = "true",
     .words = "false|true",
     ROOT(log.access),
     .prose = "A line for each request that ended."},

    SECTION("shutdown", "What happens on SIGTERM and SIGINT."),
    {.path = "shutdown.delay",
     .type = OPT_DURATION,
     .fallback = "0s",
     RANGE(0, HOUR),
     ROOT(shutdown.delay),
     .prose = "How long listeners stay open after `/readyz` began to fail."},
    {.path = "shutdown.grace",
     .type = OPT_DURATION,
     .fallback = "300s",
     RANGE(0, DAY),
     ROOT(shutdown.grace),
     .prose = "How long requests that are held or streaming may take to finish."},

    SECTION("limits", "Guards of the whole process."),
    {.path = "limits.maxHeldBytes",
     .type = OPT_SIZE,
     .fallback = "1Gi",
     RANGE(KI, TI),
     ROOT(limits.max_held_bytes),
     .prose = "All requests in memory, waiting or being sent: their bodies, as declared, and what is kept of "
              "their heads."},
    {.path = "limits.maxConnections",
     .type = OPT_COUNT,
     .fallback = "20000",
     RANGE(1, 1000000),
     ROOT(limits.max_connections),
     .prose = "Client connections at one time. The limit of open files is raised to fit."},
    {.path = "limits.maxStreams",
     .type = OPT_COUNT,
     .fallback = "128",
     RANGE(1, 10000),
     ROOT(limits.max_streams),
     .prose = "Requests at one time on one HTTP/2 connection; more are refused, to be sent again."},
    {.path = "limits.headerTimeout",
     .type = OPT_DURATION,
     .fallback = "10s",
     RANGE(MSEC, HOUR),
     ROOT(limits.header_timeout),
     .prose = "From the first byte of a request to the end of its headers."},
    {.path = "limits.bodyIdleTimeout",
     .type = OPT_DURATION,
     .fallback = "30s",
     RANGE(MSEC, HOUR),
     ROOT(limits.body_idle_timeout),
     .prose = "Without progress of a request body that is being read."},
    {.path = "limits.writeIdleTimeout",
     .type = OPT_DURATION,
     .fallback = "60s",
     RANGE(MSEC, HOUR),
     ROOT(limits.write_idle_timeout),
     .prose = "Without progress of a client that has bytes to read."},
    {.path = "limits.idleTimeout",
     .type = OPT_DURATION,
     .fallback = "180s",
     RANGE(MSEC, DAY),
     ROOT(limits.idle_timeout),
     .prose = "A connection on which no request is under way."},
    {.path = "limits.maxHeaderBytes",
     .type = OPT_SIZE,
     .fallback = "64Ki",
     RANGE(KI, MI),
     ROOT(limits.max_header_bytes),
     .prose = "The headers of one request."},

    SECTION("kubernetes", "Access to the API server of a cluster."),
    LATER_BUT("kubernetes.kubeconfig", "", "A file with the access to a cluster."),
    LATER_BUT("kubernetes.context", "", "Which of its contexts."),

    {.path = "trustedPeers",
     .type = OPT_CIDRS,
     .fallback = "[]",
     ROOT(trusted_peers),
     COUNT(wg_config, n_trusted_peers),
     .prose = "Networks of gateways in front, as `10.0.0.0/8`. Only from these are `x-forwarded-*` and "
              "`x-gateway-model-name` believed."},
    LATER_BUT("tenantHeader", "", "The header in which a trusted gateway names the tenant."),

    {.path = "models",
     .type = OPT_LIST,
     ROOT(models),
     COUNT(wg_config, n_models),
     .size = sizeof(struct wg_config_model),
     .prose = "The models that are served."},
    {.path = "models[].name",
     .type = OPT_STRING,
     .flags = OPTION_REQUIRED,
     .fallback = "",
     MODEL(name),
     .check = value_check_name,
     .prose = "What clients send as `model`; may have slashes. 1 to 256 bytes."},
    {.path = "models[].aliases",
     .type = OPT_STRINGS,
     .fallback = "[]",
     MODEL(aliases),
     .check = value_check_name,
     .prose = "Other names for it."},
    {.path = "models[].upstreamModel",
     .type = OPT_STRING,
     .fallback = "",
     MODEL(upstream_model),
     .prose = "Replaces the name in the request body; without it the name goes on as it was sent."},
    {.path = "models[].target",
     .type = OPT_SECTION,
     .flags = OPTION_ONE_OF | OPTION_REQUIRED,
     .prose = "What a wake acts on: exactly one of these keys. When it changes in a reload, the model is "
              "stopped and "
              "starts anew at its next request."},
    LATER("models[].target.kubernetes", "Replicas of a workload in a Kubernetes cluster."),
    {.path = "models[].target.process",
     .type = OPT_SECTION,
     .shown = process_shown,
     .prose = "A model server on this machine, started for a wake and stopped when idle."},
    {.path = "models[].target.process.command",
     .type = OPT_STRINGS,
     .flags = OPTION_REQUIRED,
     .fallback = "[]",
     MODEL(process.command),
     .prose = "The program and its arguments, not read by a shell. `{port}` in any of them becomes the port "
              "to listen on."},
    {.path = "models[].target.process.port",
     .type = OPT_PORT,
     .fallback = "0",
     RANGE(0, 65535),
     MODEL(process.port),
     .prose = "The port it listens on; 0: a free one is chosen at each start."},
    {.path = "models[].target.process.stopTimeout",
     .type = OPT_DURATION,
     .fallback = "10s",
     RANGE(0, HOUR),
     MODEL(process.stop_timeout),
     .prose = "From SIGTERM to SIGKILL, at the end of Wakegate too."},
    {.path = "models[].target.process.workingDir",
     .type = OPT_STRING,
     .fallback = "",
     MODEL(process.working_dir),
     .prose = "Where it runs; without it, where Wakegate runs."},
    {.path = "models[].target.process.env",
     .type = OPT_ENV,
     .flags = OPTION_SECRET,
     .fallback = "{}",
     MODEL(process.env),
     .prose = "Environment variables on top of Wakegate's own, as a mapping of name to value."},
    {.path = "models[].target.static",
     .type = OPT_SECTION,
     .shown = static_shown,
     .prose = "Model servers that run somewhere, with optional hooks that are called to wake them and to put "
              "them to sleep."},
    {.path = "models[].target.static.endpoints",
     .type = OPT_ENDPOINTS,
     .flags = OPTION_REQUIRED,
     .fallback = "[]",
     MODEL(static_.endpoints),
     COUNT(wg_config_model, static_.n_endpoints),
     .prose = "`http://HOST[:PORT]` each; the port is 80 without one."},
    SECTION("models[].target.static.wake",
            "Called when a request arrives at a cold model. With it nothing is probed before."),
    {.path = "models[].target.static.wake.method",
     .type = OPT_STRING,
     .fallback = "POST",
     .words = "POST|PUT|PATCH|GET|DELETE",
     MODEL(static_.wake.method),
     .prose = "The HTTP method."},
    {.path = "models[].target.static.wake.url",
     .type = OPT_STRING,
     .fallback = "",
     MODEL(static_.wake.url),
     .check = value_check_hook,
     .prose = "An `http://` URL; none: the servers always run."},
    SECTION("models[].target.static.sleep", "Called when the model was idle for long enough."),
    {.path = "models[].target.static.sleep.method",
     .type = OPT_STRING,
     .fallback = "POST",
     .words = "POST|PUT|PATCH|GET|DELETE",
     MODEL(static_.sleep.method),
     .prose = "The HTTP method."},
    {.path = "models[].target.static.sleep.url",
     .type = OPT_STRING,
     .fallback = "",
     MODEL(static_.sleep.url),
     .check = value_check_hook,
     .prose = "An `http://` URL."},
    SECTION("models[].upstreamKey", "The key that is sent to the model server; those of tenants never are."),
    {.path = "models[].upstreamKey.file",
     .type = OPT_STRING,
     .fallback = "",
     MODEL(upstream_key_file),
     .prose = "A file that holds it, as with keys of tenants; without it no key is sent."},

    SECTION("models[].probe", "The small real request that an endpoint must answer before it gets others."),
    {.path = "models[].probe.kind",
     .type = OPT_CHOICE,
     .fallback = "chat",
     .words = "chat|completions|embeddings|tcp",
     MODEL(probe.kind),
     .prose = "What is asked. `tcp` is content with a connection."},
    {.path = "models[].probe.prompt",
     .type = OPT_STRING,
     .fallback = "Hi",
     MODEL(probe.prompt),
     .prose = "The prompt, or the input of an embedding."},
    {.path = "models[].probe.maxTokens",
     .type = OPT_UINT,
     .fallback = "1",
     RANGE(1, 4096),
     MODEL(probe.max_tokens),
     .prose = "The most tokens it may answer."},
    {.path = "models[].probe.path",
     .type = OPT_STRING,
     .fallback = "",
     MODEL(probe.path),
     .check = value_check_probe_path,
     .prose = "Without it that of the kind: `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`."},
    {.path = "models[].probe.body",
     .type = OPT_STRING,
     .fallback = "",
     MODEL(probe.body),
     .prose = "A whole JSON body instead of one made from kind, prompt and maxTokens."},
    {.path = "models[].probe.expect",
     .type = OPT_STRING,
     .fallback = "",
     MODEL(probe.expect),
     .check = value_check_regex,
     .prose = "A POSIX extended regular expression that the answer's text must match."},
    {.path = "models[].probe.connectInterval",
     .type = OPT_DURATION,
     .fallback = "50ms",
     RANGE(MSEC, HOUR),
     MODEL(probe.connect_interval),
     .prose = "Between attempts while the address refuses or is silent."},
    {.path = "models[].probe.interval",
     .type = OPT_DURATION,
     .fallback = "250ms",
     RANGE(MSEC, HOUR),
     MODEL(probe.interval),
     .prose =
         "Between attempts once it answers, but not yet well. While it says that it is still loading (a 5xx, "
         "a 429, a connection that it closes) the gap is smaller: it begins at `connectInterval`, grows to "
         "150ms within 77 s, and is never shorter than an answer takes nor longer than this."},
    {.path = "models[].probe.timeout",
     .type = OPT_DURATION,
     .fallback = "30s",
     RANGE(MSEC, HOUR),
     MODEL(probe.timeout),
     .prose = "Of one attempt."},

    SECTION("models[].wake", "How long starting may take, and what follows when it fails."),
    {.path = "models[].wake.timeout",
     .type = OPT_DURATION,
     .fallback = "15m",
     RANGE(MSEC, DAY),
     MODEL(wake.timeout),
     .prose = "A wake that proved nothing by then has failed."},
    {.path = "models[].wake.backoff",
     .type = OPT_DURATION,
     .fallback = "10s",
     RANGE(MSEC, DAY),
     MODEL(wake.backoff),
     .prose = "After the first failure; doubled by each that follows."},
    {.path = "models[].wake.maxBackoff",
     .type = OPT_DURATION,
     .fallback = "5m",
     RANGE(MSEC, DAY),
     MODEL(wake.max_backoff),
     .prose = "The longest that it grows to."},

    SECTION("models[].hold", "How long and how many requests wait."),
    {.path = "models[].hold.timeout",
     .type = OPT_DURATION,
     .fallback = "15m",
     RANGE(MSEC, DAY),
     MODEL(hold.timeout),
     .prose = "The longest that any request waits for a cold model."},
    {.path = "models[].hold.silentTimeout",
     .type = OPT_DURATION,
     .fallback = "290s",
     RANGE(MSEC, DAY),
     MODEL(hold.silent_timeout),
     .prose = "The same for one that gets no heartbeat. Many clients give up at 300 s."},
    {.path = "models[].hold.busyTimeout",
     .type = OPT_DURATION,
     .fallback = "60s",
     RANGE(0, DAY),
     MODEL(hold.busy_timeout),
     .prose = "The longest that it waits for a free slot of a warm one."},
    {.path = "models[].hold.maxRequests",
     .type = OPT_COUNT,
     .fallback = "2000",
     RANGE(1, 1000000),
     MODEL(hold.max_requests),
     .prose = "Requests that wait at one time."},
    {.path = "models[].hold.maxBytes",
     .type = OPT_SIZE,
     .fallback = "256Mi",
     RANGE(KI, TI),
     MODEL(hold.max_bytes),
     .prose = "The bodies of those, together."},
    SECTION("models[].hold.heartbeat",
            "A sign of life in held streaming requests, which costs them their status code."),
    {.path = "models[].hold.heartbeat.after",
     .type = OPT_DURATION,
     .fallback = "40s",
     RANGE(0, DAY),
     MODEL(hold.heartbeat_after),
     .prose = "The first, after that long without an answer; `0s`: never."},
    {.path = "models[].hold.heartbeat.every",
     .type = OPT_DURATION,
     .fallback = "10s",
     RANGE(10 * MSEC, HOUR),
     MODEL(hold.heartbeat_every),
     .prose = "Those that follow."},

    {.path = "models[].maxBodyBytes",
     .type = OPT_SIZE,
     .fallback = "32Mi",
     RANGE(1, 16 * GI),
     MODEL(max_body_bytes),
     .prose = "The largest request body."},
    {.path = "models[].paths",
     .type = OPT_STRINGS,
     .flags = OPTION_REQUIRED,
     .fallback =
         "[/v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses, /v1/messages, /v1/audio/*, "
         "/v1/images/*, /v1/rerank, /v2/rerank, /rerank, /v1/score, /score, /pooling, /classify, /tokenize, "
         "/detokenize]",
     MODEL(paths),
     .check = value_check_path,
     .prose = "The paths that clients may use, all else is 404; `*` stands for one segment. What steers a "
              "model server "
              "(`/sleep`, `/v1/load_lora_adapter`) is not for clients."},

    SECTION("models[].concurrency", "How many requests one endpoint works on at a time."),
    {.path = "models[].concurrency.perEndpoint",
     .type = OPT_UINT,
     .fallback = "256",
     RANGE(1, 65535),
     MODEL(concurrency.per_endpoint),
     .prose = "Its slots. Process targets: 4."},
    {.path = "models[].concurrency.rampStart",
     .type = OPT_UINT,
     .fallback = "16",
     RANGE(1, 65535),
     MODEL(concurrency.ramp_start),
     .prose = "With how many a new endpoint begins; each success adds one. Process targets: 4; never more "
              "than perEndpoint."},

    SECTION("models[].timeouts",
            "Towards the model server; they start when the request is sent, not when it arrives."),
    {.path = "models[].timeouts.connect",
     .type = OPT_DURATION,
     .fallback = "2s",
     RANGE(MSEC, HOUR),
     MODEL(timeouts.connect),
     .prose = "To have a connection."},
    {.path = "models[].timeouts.firstByte",
     .type = OPT_DURATION,
     .fallback = "600s",
     RANGE(MSEC, DAY),
     MODEL(timeouts.first_byte),
     .prose = "From the request sent to the first byte of the answer."},
    {.path = "models[].timeouts.idle",
     .type = OPT_DURATION,
     .fallback = "300s",
     RANGE(MSEC, DAY),
     MODEL(timeouts.idle),
     .prose = "Between two parts of an answer."},
    {.path = "models[].timeouts.reuse",
     .type = OPT_DURATION,
     .fallback = "4s",
     RANGE(0, HOUR),
     MODEL(timeouts.reuse),
     .prose = "How long a connection may have been idle and still be used again; `0s`: each request has its "
              "own. Must be "
              "shorter than the keep-alive time of the server (uvicorn: 5 s)."},

    SECTION("models[].idle", "When a model that nobody uses is stopped."),
    {.path = "models[].idle.timeout",
     .type = OPT_DURATION,
     .fallback = "30m",
     .words = "never",
     RANGE(MSEC, 365 * DAY),
     MODEL(idle_timeout),
     .prose = "After that long with nothing held or in flight, but never sooner than its measured cold start "
              "takes."},
    LATER_BUT("models[].idle.minReplicas", "0", "What it is scaled down to."),
    {.path = "models[].preload",
     .type = OPT_BOOL,
     .fallback = "false",
     .words = "false|true",
     MODEL(preload),
     .prose = "Wake it when Wakegate starts."},
    LATER_BUT("models[].group", "", "The group of models that exclude each other."),

    LATER_BUT("groups", "[]", "Groups of models of which only some run at a time."),

    {.path = "tenants",
     .type = OPT_LIST,
     ROOT(tenants),
     COUNT(wg_config, n_tenants),
     .size = sizeof(struct wg_config_tenant),
     .shown = tenants_shown,
     .prose = "Who may send requests. With none, everybody may, as the tenant `default`."},
    {.path = "tenants[].name",
     .type = OPT_STRING,
     .flags = OPTION_REQUIRED,
     .fallback = "",
     TENANT(name),
     .check = value_check_name,
     .prose = "1 to 256 bytes. It is a label of the metrics."},
    {.path = "tenants[].keys",
     .type = OPT_LIST,
     .flags = OPTION_ONE_OF,
     TENANT(keys),
     COUNT(wg_config_tenant, n_keys),
     .size = sizeof(struct wg_key),
     .prose = "The keys that its requests carry, each given in one of these ways."},
    KEY_ROWS("tenants[].keys"),
    {.path = "tenants[].keys[].san",
     .type = OPT_STRING,
     .fallback = "",
     KEY(san),
     .shown = key_san_shown,
     .check = value_check_san,
     .prose =
         "A name in the client's certificate (subject alternative name: DNS, URI or e-mail; case counts "
         "except in DNS names), on listeners with a `clientCaFile`. A key that such a request carries "
         "besides "
         "decides if it is known, and must belong to the same tenant; one that is not known is ignored."},
    {.path = "tenants[].models",
     .type = OPT_STRINGS,
     .fallback = "[\"*\"]",
     TENANT(models),
     .prose = "The names of the models that it may use; `*` is all."},
    {.path = "tenants[].priority",
     .type = OPT_INT,
     .fallback = "0",
     RANGE(-1000, 1000),
     TENANT(priority),
     .prose = "Requests of a higher one are drained first."},
    {.path = "tenants[].weight",
     .type = OPT_UINT,
     .fallback = "1",
     RANGE(1, 1000),
     TENANT(weight),
     .prose = "Its share among tenants of the same priority."},
    LATER("tenants[].requestsPerMinute", "Requests in a minute."),
    LATER("tenants[].requestsBurst", "Requests at once."),
    LATER("tenants[].tokensPerMinute", "Tokens in a minute."),
    LATER("tenants[].tokensBurst", "Tokens at once."),
    LATER("tenants[].tokensPerDay", "Tokens in a calendar day."),
    LATER("tenants[].tokensPerMonth", "Tokens in a calendar month."),
    LATER_BUT("tenants[].timezone", "UTC", "The time zone of these windows."),
    LATER("tenants[].maxConcurrent", "Requests held and in flight."),
    LATER("tenants[].maxHeld", "Requests held."),
    LATER("tenants[].maxHeldBytes", "Bytes of requests held."),
    LATER("tenants[].wakesPerHour", "Cold starts that it may cause."),
    LATER("tenants[].perModel", "The same limits again, for one model."),
    {.path = "anonymous",
     .type = OPT_BOOL,
     .fallback = "deny",
     .words = "deny|allow",
     ROOT(anonymous_allow),
     .prose = "`allow`: requests without a key belong to the tenant `anonymous`, if there is one."},

    SECTION("tokens", "Estimates of what a request will use."),
    {.path = "tokens.defaultMaxTokens",
     .type = OPT_UINT,
     .fallback = "256",
     RANGE(1, 10000000),
     ROOT(tokens.default_max_tokens),
     .prose = "For an answer whose request names no cap."},
    {.path = "tokens.perImage",
     .type = OPT_UINT,
     .fallback = "1024",
     RANGE(0, 10000000),
     ROOT(tokens.per_image),
     .prose = "For one image or audio part."},
};
const size_t n_options = WG_COUNT_OF(options);

const struct option *option_find(const char *path)
{
    for (size_t i = 0; i < n_options; i++)
        if (strcmp(options[i].path, path) == 0)
            return &options[i];
    return NULL;
}

const char *option_key(const struct option *option)
{
    const char *dot = strrchr(option->path, '.');

    return dot != NULL ? dot + 1 : option->path;
}

/* What is behind "parent." in the path, or NULL. */
static const char *below(const struct option *option, const char *parent)
{
    size_t len = strlen(parent);

    if (len == 0)
        return option->path;
    return strncmp(option->path, parent, len) == 0 && option->path[len] == '.' ? option->path + len + 1
                                                                               : NULL;
}

bool option_is_child(const struct option *option, const char *parent)
{
    const char *rest = below(option, parent);

    return rest != NULL && strchr(rest, '.') == NULL;
}

bool option_is_member(const struct option *option, const char *parent)
{
    const char *rest = below(option, parent);

    return rest != NULL && strstr(rest, "[]") == NULL;
}

void option_inside(const struct option *option, char out[static 128])
{
    size_t len = strlen(option->path);

    WG_ASSERT(len + 3 <= 128);
    memcpy(out, option->path, len + 1);
    if (option->type == OPT_LIST)
        memcpy(out + len, "[]", 3);
}

bool option_available(const struct option *option)
{
    char inside[128];

    if (option->type != OPT_SECTION)
        return option->type != OPT_LATER;
    option_inside(option, inside);
    for (size_t i = 0; i < n_options; i++)
        if (option_is_child(&options[i], inside) && option_available(&options[i]))
            return true;
    return false;
}

bool option_word(const struct option *option, size_t i, struct wg_slice *ret_word)
{
    struct wg_slice rest = wg_slice_str(option->words), word;

    while (wg_slice_split(&rest, '|', &word))
        if (i-- == 0) {
            *ret_word = word;
            return true;
        }
    return false;
}
