/* The names that a client's certificate gives it. */
#include "tls_internal.h"

#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

/* The kinds are told apart by how a name looks, as whoever compares them does: one that looks like another
 * kind is no name of ours. */
static bool looks_like(int type, struct wg_slice name)
{
    const bool colon = memchr(name.ptr, ':', name.len) != NULL, at = memchr(name.ptr, '@', name.len) != NULL;
    switch (type) {
    case GEN_DNS:
        return !colon && !at;
    case GEN_URI:
        return colon;
    case GEN_EMAIL:
        return at && !colon;
    default:
        return false;
    }
}

/* NULL for what is no name of ours: another kind, too long, or with a NUL, behind which a name could hide. */
static const ASN1_IA5STRING *usable_name(const GENERAL_NAME *name)
{
    if (name->type != GEN_DNS && name->type != GEN_URI && name->type != GEN_EMAIL)
        return NULL;
    const ASN1_IA5STRING *text = name->d.ia5;
    const int len = ASN1_STRING_length(text);
    if (len < 1 || len > TLS_SAN_BYTES || memchr(ASN1_STRING_get0_data(text), 0, (size_t)len))
        return NULL;
    return looks_like(name->type, wg_slice(ASN1_STRING_get0_data(text), (size_t)len)) ? text : NULL;
}

void tls_sans_collect(const X509 *certificate, struct wg_strings *ret_sans)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const int n = names ? sk_GENERAL_NAME_num(names) : 0;
    *ret_sans = (struct wg_strings){0};
    if (n > 0)
        ret_sans->items = wg_xcalloc((size_t)WG_MIN(n, (int)TLS_SANS_MAX), sizeof(char *));
    for (int i = 0; i < n && ret_sans->n < TLS_SANS_MAX; i++) {
        const ASN1_IA5STRING *text = usable_name(sk_GENERAL_NAME_value(names, i));
        if (text)
            ret_sans->items[ret_sans->n++] =
                wg_xstrndup((const char *)ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text));
    }
    GENERAL_NAMES_free(names);
}

void tls_sans_clear(struct wg_strings *sans)
{
    for (size_t i = 0; i < sans->n; i++)
        free(sans->items[i]);
    free(sans->items);
    *sans = (struct wg_strings){0};
}
