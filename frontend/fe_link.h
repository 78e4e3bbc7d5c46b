/* fe_link.h - the links to the brokers. A tenant's requests go to one broker (by hash of the
 * tenant) while it is up. */
#ifndef CFD_FRONTEND_FE_LINK_H
#define CFD_FRONTEND_FE_LINK_H

#include "io/link.h"

#define FE_LINKS_MAX 8U
#define FE_LINK_NONE FE_LINKS_MAX

struct fe;

struct fe_link {
    struct fe *fe;
    struct link *link; /* owned */
    unsigned index;
    bool was_up;
    uint32_t workers; /* as the broker said last; 0 while down */
    uint32_t sandboxds;
};

struct fe_links {
    struct fe_link at[FE_LINKS_MAX];
    unsigned count;
};

int fe_links_open(struct fe *fe, struct err *e);
void fe_links_close(struct fe *fe);
void fe_links_say_bye(struct fe *fe);
/* The broker for a tenant; FE_LINK_NONE when all are down. */
unsigned fe_links_choose(const struct fe *fe, const struct tenant_id *tenant);
int fe_links_send(struct fe *fe, unsigned index, struct str_view frame0, struct buf *payload);
bool fe_links_is_up(const struct fe *fe, unsigned index);
/* Sums over the brokers that are up. */
void fe_links_counts(const struct fe *fe, unsigned *ret_up, uint32_t *ret_workers,
                     uint32_t *ret_sandboxds);

#endif
