/* Faults between options of the whole configuration: listeners, tenants, keys, names. */
#include "check.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "wakegate/base/map.h"

/* ---- places ---- */

/* As far down as the tree goes; *ret_whole tells if that was all the way. */
static const struct node *descend(const struct node *node, const char *keys, bool *ret_whole)
{
    struct wg_slice rest = wg_slice_str(keys[0] != '\0' ? keys : NULL), key;

    while (wg_slice_split(&rest, '.', &key)) {
        const struct node *next = node_get(node, key);
        if (next == NULL || next->kind == NODE_NULL) {
            *ret_whole = false;
            return node;
        }
        node = next;
    }
    *ret_whole = node != NULL;
    return node;
}

const struct node *spot_find(const struct spot *spot, const char *keys)
{
    bool whole;
    const struct node *node = descend(spot->node, keys, &whole);

    return whole ? node : NULL;
}

struct spot spot_member(const struct spot *spot, const char *keys, size_t i)
{
    const struct node *list = spot_find(spot, keys);
    struct spot member = {.reading = spot->reading};

    if (list != NULL && list->kind == NODE_LIST && i < list->n)
        member.node = list->items[i];
    snprintf(member.path, sizeof(member.path), "%.60s%s%.30s[%zu]", spot->path,
             spot->path[0] != '\0' ? "." : "", keys, i);
    return member;
}

WG_PRINTF(3, 0)
static void tell(const struct spot *spot, const char *keys, const char *format, va_list args,
                 void (*add)(struct wg_config_faults *, const char *, unsigned, const char *, const char *,
                             ...))
{
    bool whole;
    const struct node *node = descend(spot->node, keys, &whole);
    const char *dot = spot->path[0] != '\0' && keys[0] != '\0' ? "." : "";
    char *path WG_AUTO_FREE = wg_xasprintf("%s%s%s", spot->path, dot, keys);
    char *what = NULL;

    if (vasprintf(&what, format, args) < 0)
        what = wg_xstrdup("is wrong");
    add(spot->reading->faults, spot->reading->file, node != NULL ? node->line : 1, path, "%s", what);
    free(what);
}

void spot_fault(const struct spot *spot, const char *keys, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(spot, keys, format, args, config_fault);
    va_end(args);
}

void spot_warning(const struct spot *spot, const char *keys, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(spot, keys, format, args, config_warning);
    va_end(args);
}

/* ---- listeners ---- */

static uint16_t port_of(const struct wg_address *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->sa;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->sa;

    return ntohs(address->sa.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

static bool loopback(const struct wg_address *address)
{
    static const struct wg_cidr networks[] = {
        {.family = AF_INET, .bytes = {127}, .bits = 8},
        {.family = AF_INET6, .bytes = {[15] = 1}, .bits = 128},
    };

    return wg_cidr_contains(networks, WG_COUNT_OF(networks), (const struct sockaddr *)&address->sa);
}

static bool same_address(const struct wg_address *a, const struct wg_address *b)
{
    return a->text != NULL && b->text != NULL && port_of(a) != 0 && strcmp(a->text, b->text) == 0;
}

/* From now on the name can be opened from wherever we are. */
static void find_file(const struct spot *spot, const char *keys, char **file)
{
    if (*file == NULL || (*file)[0] == '\0')
        return;
    char *path = file_beside(spot->reading->file, *file);
    const char *wrong = file_unreadable(path);

    if (wrong != NULL)
        spot_fault(spot, keys, "%.200s: %s", *file, wrong);
    free(*file);
    *file = path;
}

static void check_tls(const struct spot *spot, struct wg_config_tls *tls)
{
    find_file(spot, "tls.certFile", &tls->cert_file);
    find_file(spot, "tls.keyFile", &tls->key_file);
    find_file(spot, "tls.clientCaFile", &tls->client_ca_file);
    for (size_t i = 0; i < tls->n_certificates; i++) {
        struct spot pair = spot_member(spot, "tls.certificates", i);
        find_file(&pair, "certFile", &tls->certificates[i].cert_file);
        find_file(&pair, "keyFile", &tls->certificates[i].key_file);
    }
}

static bool asks_for_certificates(const struct wg_config *config)
{
    for (size_t i = 0; i < config->n_listeners; i++)
        if (config->listeners[i].tls.client_ca_file != NULL &&
            config->listeners[i].tls.client_ca_file[0] != '\0')
            return true;
    return false;
}

static void check_listeners(const struct spot *top, struct wg_config *config)
{
    if (config->n_listeners == 0) {
        const char *text = config->open ? "127.0.0.1:8080" : "0.0.0.0:8080";
        config->listeners = WG_NEW(struct wg_config_listener);
        config->n_listeners = 1;
        config->listeners[0].tls.cert_file = wg_xstrdup("");
        WG_ASSERT(wg_address_parse(wg_slice_str(text), &config->listeners[0].address) == 0);
    }
    for (size_t i = 0; i < config->n_listeners; i++) {
        const struct wg_address *address = &config->listeners[i].address;
        struct spot spot = spot_member(top, "listeners", i);
        for (size_t j = 0; j < i; j++)
            if (same_address(address, &config->listeners[j].address))
                spot_fault(&spot, "address", "is the address of listeners[%zu] too", j);
        if (same_address(address, &config->admin.address))
            spot_fault(&spot, "address", "is the address of admin too");
        if (config->open && address->text != NULL && !loopback(address))
            spot_warning(&spot, "address", "without tenants whoever can connect may use every model");
        check_tls(&spot, &config->listeners[i].tls);
    }
    if (!loopback(&config->admin.address) && config->admin.n_keys == 0)
        spot_warning(top, "admin.address",
                     "is not a loopback address and there are no admin.keys: "
                     "orders to wake or sleep will be refused");
}

/* ---- keys and tenants ---- */

static void read_key_file(const struct spot *spot, struct wg_key *key)
{
    const char *wrong = NULL;
    char *secret = file_read_secret(spot->reading->file, key->file, &wrong);

    if (secret == NULL)
        spot_fault(spot, "file", "%.200s: %s", key->file, wrong);
    else
        WG_ASSERT(EVP_Digest(secret, strlen(secret), key->sha256, NULL, EVP_sha256(), NULL) == 1);
    file_wipe(secret);
}

static bool key_known(const struct wg_key *key)
{
    static const struct wg_key none;

    return memcmp(key->sha256, none.sha256, sizeof(none.sha256)) != 0;
}

static void check_san(const struct spot *spot, struct wg_config *config, struct wg_config_tenant *tenant,
                      const char *san)
{
    char *name WG_AUTO_FREE = config_san(wg_slice_str(san));

    if (wg_map_insert(config->by_san, wg_slice_str(name), tenant) < 0) {
        const struct wg_config_tenant *owner = wg_map_get(config->by_san, wg_slice_str(name));
        spot_fault(spot, "san", "is a name of the tenant \"%.100s\" already", owner->name);
    }
    if (!asks_for_certificates(config))
        spot_warning(spot, "san", "no listener has a clientCaFile, so nobody is known by a certificate");
}

static void check_tenant_keys(const struct spot *spot, struct wg_config *config,
                              struct wg_config_tenant *tenant)
{
    for (size_t i = 0; i < tenant->n_keys; i++) {
        struct wg_key *key = &tenant->keys[i];
        struct wg_slice hash = wg_slice(key->sha256, sizeof(key->sha256));
        struct spot at = spot_member(spot, "keys", i);
        if (key->san[0] != '\0')
            check_san(&at, config, tenant, key->san);
        if (key->file[0] != '\0')
            read_key_file(&at, key);
        if (key_known(key) && wg_map_insert(config->by_key, hash, tenant) < 0) {
            const struct wg_config_tenant *owner = wg_map_get(config->by_key, hash);
            spot_fault(&at, "", "is a key of the tenant \"%.100s\" already", owner->name);
        }
    }
}

static void check_tenant_models(const struct spot *spot, const struct wg_config *config,
                                const struct wg_config_tenant *tenant)
{
    for (size_t i = 0; i < tenant->models.n; i++) {
        const char *name = tenant->models.items[i];
        if (strcmp(name, "*") == 0)
            continue;
        const struct wg_config_model *model = wg_map_get(config->by_name, wg_slice_str(name));
        struct spot at = spot_member(spot, "models", i);
        if (model == NULL)
            spot_fault(&at, "", "there is no model \"%.100s\"", name);
        else if (strcmp(model->name, name) != 0)
            spot_fault(&at, "", "\"%.100s\" is an alias; name the model, \"%.100s\"", name, model->name);
    }
}

static bool is_anonymous(const struct wg_config_tenant *tenant)
{
    return strcmp(tenant->name, "anonymous") == 0;
}

static void check_tenant(const struct spot *spot, struct wg_config *config, struct wg_config_tenant *tenant)
{
    if (is_anonymous(tenant) && !config->anonymous_allow)
        spot_warning(spot, "name",
                     "this tenant is for requests without a key, and `anonymous: allow` is not set");
    else if (!is_anonymous(tenant) && tenant->n_keys == 0)
        spot_warning(spot, "", "the tenant \"%.100s\" has no keys, so no request can be its own",
                     tenant->name);
    check_tenant_keys(spot, config, tenant);
    check_tenant_models(spot, config, tenant);
}

static void check_tenants(const struct spot *top, struct wg_config *config)
{
    struct wg_map *names = wg_map_new();

    for (size_t i = 0; i < config->n_tenants; i++) {
        struct wg_config_tenant *tenant = &config->tenants[i];
        struct spot spot = spot_member(top, "tenants", i);
        tenant->index = (unsigned)i;
        if (tenant->name[0] != '\0' && wg_map_insert(names, wg_slice_str(tenant->name), tenant) < 0)
            spot_fault(&spot, "name", "\"%.100s\" is the name of another tenant too", tenant->name);
        check_tenant(&spot, config, tenant);
    }
    if (config->anonymous_allow && !config->open && wg_map_get(names, WG_SLICE("anonymous")) == NULL)
        spot_warning(top, "anonymous",
                     "there is no tenant \"anonymous\", so requests without a key are refused");
    wg_map_free(names);
}

static void add_open_tenant(struct wg_config *config)
{
    struct wg_config_tenant *tenant = WG_NEW(struct wg_config_tenant);

    tenant->name = wg_xstrdup("default");
    tenant->models.items = wg_xcalloc(1, sizeof(char *));
    tenant->models.items[0] = wg_xstrdup("*");
    tenant->models.n = 1;
    tenant->weight = 1;
    config->tenants = tenant;
    config->n_tenants = 1;
}

/* ---- models ---- */

static void add_name(const struct spot *spot, const char *keys, struct wg_config *config, const char *name,
                     struct wg_config_model *model)
{
    if (name[0] == '\0' || wg_map_insert(config->by_name, wg_slice_str(name), model) == 0)
        return;
    const struct wg_config_model *other = wg_map_get(config->by_name, wg_slice_str(name));
    spot_fault(spot, keys, "\"%.100s\" is a name of models[%u] already", name, other->index);
}

static void check_port(const struct spot *spot, const struct wg_config *config,
                       const struct wg_config_model *model)
{
    for (unsigned i = 0; i < model->index; i++) {
        const struct wg_config_model *other = &config->models[i];
        if (model->target == WG_TARGET_PROCESS && other->target == WG_TARGET_PROCESS &&
            model->process.port != 0 && model->process.port == other->process.port)
            spot_warning(spot, "target.process.port",
                         "is the port of models[%u] too: they cannot run at the same time", i);
    }
}

static void check_models(const struct spot *top, struct wg_config *config)
{
    for (size_t i = 0; i < config->n_models; i++) {
        struct wg_config_model *model = &config->models[i];
        struct spot spot = spot_member(top, "models", i);
        model->index = (unsigned)i;
        check_model(&spot, config, model);
        check_port(&spot, config, model);
        add_name(&spot, "name", config, model->name, model);
    }
    for (size_t i = 0; i < config->n_models; i++)
        for (size_t j = 0; j < config->models[i].aliases.n; j++) {
            struct spot spot = spot_member(top, "models", i), alias = spot_member(&spot, "aliases", j);
            add_name(&alias, "", config, config->models[i].aliases.items[j], &config->models[i]);
        }
    if (config->n_models == 0)
        spot_warning(top, "models", "there are none, so every request will be refused");
}

void check_config(struct reading *reading, struct wg_config *config, const struct node *root)
{
    const struct spot top = {.reading = reading, .node = root};

    config->by_name = wg_map_new();
    config->by_key = wg_map_new();
    config->by_san = wg_map_new();
    config->open = config->n_tenants == 0;
    for (size_t i = 0; i < config->admin.n_keys; i++) {
        struct spot spot = spot_member(&top, "admin.keys", i);
        if (config->admin.keys[i].file[0] != '\0')
            read_key_file(&spot, &config->admin.keys[i]);
    }
    check_listeners(&top, config);
    check_models(&top, config);
    check_tenants(&top, config);
    if (config->open) {
        free(config->tenants);
        add_open_tenant(config);
    }
}
