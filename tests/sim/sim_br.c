/* Random frontends, workers and sandboxds around the broker's core in virtual time: they join, die,
 * leave, fall silent, cancel; the broker restarts. Messages to a peer wait in its inbox and are
 * taken in an order of their own.
 *
 * After each step br_core_check holds (credit + in flight <= capacity, no job in two places, ...).
 * In the models:
 *   - a worker never gets more than its capacity, and no (request, attempt) is dispatched twice;
 *   - a call is answered at most once per broker, and in the end exactly once;
 *   - in the end every request of a living frontend has ended, once, and no sandbox of a request is
 * left.
 *
 * sim_br [SEED [COUNT [REQUEST]]]: a failing seed is printed; run it alone to see it again, with
 * the number of a request to see what was said about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "br_rig.h"

#define FES          3U
#define WKS          4U
#define SBS          2U
#define PEERS        (FES + WKS + SBS)
#define REQUESTS_MAX 400U
#define CALLS_MAX    4U
#define INBOX_MAX    4096U
#define STEPS        1500U

#define NEED(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "seed %llu, step %u: not true: %s (line %d)\n",                        \
                    (unsigned long long)s.seed, s.step, #cond, __LINE__);                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct letter {
    struct msg_head head;
    uint32_t number; /* of a sandbox call */
    int code;
    uint8_t op;
};

struct peer {
    char id[16];
    enum msg_role role;
    bool is_alive;
    bool is_up; /* welcomed by this broker */
    bool is_leaving;
    uint32_t capacity;
    uint64_t beat_ms;
    uint8_t incarnation;
    struct letter inbox[INBOX_MAX];
    unsigned first, count;
};

enum run_state { RUN_NONE, RUN_OPEN, RUN_CANCELLED };

struct request {
    unsigned fe;
    uint8_t incarnation; /* of the frontend it belongs to */
    uint32_t tenant;
    uint8_t attempt;
    bool is_open;
    bool is_started;
    unsigned ends;
    uint8_t dispatched; /* bit per attempt */
    /* its runs at workers, per attempt 1..2 */
    struct {
        enum run_state state;
        unsigned wk;
        uint8_t calls;    /* made */
        uint8_t answered; /* bit per call */
        uint8_t asked;    /* bit per call: sent to the present broker */
        bool is_done_unsent;
    } run[3];
    bool has_box[SBS];
};

/* A call at a sandboxd. */
struct work {
    uint32_t request;
    uint32_t number;
    bool is_there;
};

static struct {
    struct rig rig;
    uint64_t seed, random;
    unsigned step;
    uint32_t traced; /* a request whose messages are printed */
    struct peer peers[PEERS];
    struct request requests[REQUESTS_MAX];
    unsigned request_count;
    struct work work[SBS][INBOX_MAX];
    unsigned restarts, deaths;
    bool is_quiet; /* no more trouble: let everything end */
    bool is_calm;  /* a run without restarts and silence: stricter */
} s;

static uint32_t rnd(uint32_t below)
{
    s.random ^= s.random << 13;
    s.random ^= s.random >> 7;
    s.random ^= s.random << 17;
    return (uint32_t)((s.random >> 16) % below);
}

static struct peer *peer_at(enum msg_role role, unsigned i)
{
    return &s.peers[role == MSG_ROLE_FRONTEND ? i
                    : role == MSG_ROLE_WORKER ? FES + i
                                              : FES + WKS + i];
}

static unsigned index_of(const struct peer *p)
{
    unsigned i = (unsigned)(p - s.peers);

    return i < FES ? i : i < FES + WKS ? i - FES : i - FES - WKS;
}

static void inbox_clear(struct peer *p)
{
    p->first = p->count = 0;
}

/* --- what the broker says
 * -------------------------------------------------------------------------------------------- */

static void trace(const char *dir, const char *peer, uint8_t type, const struct request_id *rid,
                  unsigned attempt)
{
    if (s.traced != UINT32_MAX && (rig_rid_number(rid) == s.traced || type < MSG_SUBMIT)) {
        printf("%8llu %s %-4s %s %u/%u\n", (unsigned long long)s.rig.now_ms, dir, peer,
               msg_name(type), rig_rid_number(rid), attempt);
    }
}

static void on_out(void *ctx, const struct rig_out *o)
{
    struct peer *p = NULL;
    struct letter *l;
    struct msg_body_SBX_CALL call;
    struct msg_body_SBX_RESULT result;
    struct msg_body_SBX_CANCEL cancel;

    (void)ctx;
    trace("<-", o->to, o->head.type, &o->head.rid, o->head.attempt);
    for (unsigned i = 0; i < PEERS && p == NULL; i++) {
        p = strcmp(s.peers[i].id, o->to) == 0 ? &s.peers[i] : NULL;
    }
    NEED(p != NULL);
    if (!p->is_alive) {
        return;
    }
    NEED(p->count < INBOX_MAX);
    l = &p->inbox[(p->first + p->count++) % INBOX_MAX];
    *l = (struct letter){.head = o->head};
    if (o->head.type == MSG_SBX_CALL) {
        NEED(msg_decode_SBX_CALL(&call, o->fields) == 0);
        l->number = call.call;
        l->op = call.op;
    } else if (o->head.type == MSG_SBX_RESULT) {
        NEED(msg_decode_SBX_RESULT(&result, o->fields) == 0);
        l->number = result.call;
        l->code = result.code;
    } else if (o->head.type == MSG_SBX_CANCEL) {
        NEED(msg_decode_SBX_CANCEL(&cancel, o->fields) == 0);
        l->number = cancel.call;
    }
}

static void on_in(void *ctx, const char *from, const struct msg_head *h)
{
    (void)ctx;
    trace("->", from, h->type, &h->rid, h->attempt);
}

static bool is_mine(const struct request *q, const struct peer *fe)
{
    return peer_at(MSG_ROLE_FRONTEND, q->fe) == fe && q->incarnation == fe->incarnation;
}

static void request_end(struct request *q)
{
    NEED(q->is_open);
    q->is_open = false;
    q->ends++;
}

/* --- frontends
 * -------------------------------------------------------------------------------------------------------
 */

static void submit(struct peer *fe, uint32_t n, uint32_t flags)
{
    struct request *q = &s.requests[n];

    rig_submit(&s.rig, fe->id, n, q->attempt, q->tenant,
               flags | (flags != 0 && q->is_started ? MSG_FLAG_STARTED : 0U), 0);
}

static void fe_new_request(struct peer *fe)
{
    struct request *q = &s.requests[s.request_count];

    if (!fe->is_up || s.request_count + 1 >= REQUESTS_MAX) {
        return;
    }
    *q = (struct request){.fe = index_of(fe),
                          .incarnation = fe->incarnation,
                          .tenant = 1 + rnd(4),
                          .attempt = 1,
                          .is_open = true};
    submit(fe, s.request_count++, 0);
}

static void fe_take(struct peer *fe, const struct letter *l)
{
    uint32_t n = rig_rid_number(&l->head.rid);
    struct request *q = &s.requests[n];

    if (l->head.type == MSG_WELCOME) {
        fe->is_up = true;
        for (uint32_t i = 0; i < s.request_count; i++) {
            if (s.requests[i].is_open && is_mine(&s.requests[i], fe)) {
                submit(fe, i, MSG_FLAG_RESUBMIT);
            }
        }
        return;
    }
    if (l->head.type != MSG_REFUSE && l->head.type != MSG_LOST) {
        return;
    }
    if (!q->is_open || !is_mine(q, fe) || l->head.attempt < q->attempt) {
        return;
    }
    if (l->head.type == MSG_REFUSE || q->is_started || l->head.attempt >= 2) {
        request_end(q);
        return;
    }
    q->attempt = (uint8_t)(l->head.attempt + 1);
    submit(fe, n, 0);
}

/* --- workers
 * --------------------------------------------------------------------------------------------------------------
 */

static unsigned wk_running(const struct peer *wk)
{
    unsigned n = 0;

    for (unsigned i = 0; i < s.request_count; i++) {
        for (unsigned a = 1; a <= 2; a++) {
            n += s.requests[i].run[a].state != RUN_NONE && s.requests[i].run[a].wk == index_of(wk)
                     ? 1U
                     : 0U;
        }
    }
    return n;
}

static void wk_hello(struct peer *wk)
{
    static uint32_t claims[REQUESTS_MAX][2];
    size_t n = 0;

    for (uint32_t i = 0; i < s.request_count; i++) {
        for (uint32_t a = 1; a <= 2; a++) {
            if (s.requests[i].run[a].state != RUN_NONE && s.requests[i].run[a].wk == index_of(wk)) {
                claims[n][0] = i;
                claims[n++][1] = a;
            }
        }
    }
    rig_hello_claims(&s.rig, wk->id, wk->capacity, (const uint32_t(*)[2])claims, n);
}

/* Asks for call `c`, or again after a reconnect. */
static void wk_ask(struct peer *wk, uint32_t n, uint8_t attempt, uint8_t c)
{
    struct request *q = &s.requests[n];
    bool is_session = (n + c) % 3 == 0;

    q->run[attempt].asked = (uint8_t)(q->run[attempt].asked | 1U << c);
    rig_call(&s.rig, wk->id, n, attempt, q->tenant, c, MSG_SBX_RUN,
             is_session ? MSG_SCOPE_SESSION : MSG_SCOPE_REQUEST);
}

static void wk_up(struct peer *wk)
{
    unsigned running = wk_running(wk);

    wk->is_up = true;
    if (wk->is_leaving) {
        rig_bye(&s.rig, wk->id);
    } else if (running < wk->capacity) {
        rig_credit(&s.rig, wk->id, (uint16_t)(wk->capacity - running));
    }
    for (uint32_t i = 0; i < s.request_count; i++) {
        for (uint8_t a = 1; a <= 2; a++) {
            struct request *q = &s.requests[i];

            if (q->run[a].state == RUN_NONE || q->run[a].wk != index_of(wk)) {
                continue;
            }
            for (uint8_t c = 0; c < q->run[a].calls; c++) {
                if ((q->run[a].answered & 1U << c) == 0) {
                    wk_ask(wk, i, a, c);
                }
            }
        }
    }
}

static void wk_take(struct peer *wk, const struct letter *l)
{
    uint32_t n = rig_rid_number(&l->head.rid);
    struct request *q = &s.requests[n];
    unsigned a = l->head.attempt;

    if (l->head.type == MSG_WELCOME) {
        wk_up(wk);
    } else if (l->head.type == MSG_DISPATCH) {
        NEED(a >= 1 && a <= 2 && n < s.request_count);
        NEED((q->dispatched & 1U << a) == 0 || q->run[a].state == RUN_NONE);
        NEED(!s.is_calm || (q->dispatched & 1U << a) == 0);
        q->dispatched = (uint8_t)(q->dispatched | 1U << a);
        memset(&q->run[a], 0, sizeof(q->run[a]));
        q->run[a].state = RUN_OPEN;
        q->run[a].wk = index_of(wk);
        NEED(wk_running(wk) <= wk->capacity);
    } else if (l->head.type == MSG_CANCEL) {
        if (a >= 1 && a <= 2 && q->run[a].state != RUN_NONE && q->run[a].wk == index_of(wk)) {
            q->run[a].state = RUN_CANCELLED;
        }
    } else if (l->head.type == MSG_SBX_RESULT) {
        if (a < 1 || a > 2 || q->run[a].state == RUN_NONE || q->run[a].wk != index_of(wk)) {
            return; /* the job ended meanwhile */
        }
        NEED(l->number < q->run[a].calls);
        NEED((q->run[a].answered & 1U << l->number) == 0 ||
             !s.is_calm); /* after a restart twice is possible */
        q->run[a].answered = (uint8_t)(q->run[a].answered | 1U << l->number);
    }
}

/* One of the worker's runs moves on: a call, first bytes, or the end. */
static void wk_work(struct peer *wk)
{
    uint32_t start = s.request_count > 0 ? rnd(s.request_count) : 0;

    for (uint32_t i = 0; i < s.request_count; i++) {
        uint32_t n = (start + i) % s.request_count;
        struct request *q = &s.requests[n];
        uint8_t a = q->run[2].state != RUN_NONE && q->run[2].wk == index_of(wk) ? 2 : 1;
        bool has_open = false;

        if (q->run[a].state == RUN_NONE || q->run[a].wk != index_of(wk)) {
            continue;
        }
        has_open = q->run[a].answered != (uint8_t)((1U << q->run[a].calls) - 1U);
        if (q->run[a].state == RUN_OPEN && !has_open && q->run[a].calls < CALLS_MAX &&
            rnd(3) == 0 && wk->is_up) {
            wk_ask(wk, n, a, q->run[a].calls++);
            return;
        }
        if (q->run[a].state == RUN_OPEN && q->is_open && q->attempt <= a && rnd(3) == 0) {
            q->attempt = a; /* first bytes: the frontend follows this attempt */
            q->is_started = true;
            return;
        }
        if (!wk->is_up || (q->run[a].state == RUN_OPEN && has_open)) {
            continue;
        }
        if (q->run[a].state == RUN_OPEN && q->is_open && q->attempt <= a) {
            request_end(q);
        }
        q->run[a].state = RUN_NONE;
        rig_done(&s.rig, wk->id, n, a);
        return;
    }
}

/* --- sandboxds
 * ------------------------------------------------------------------------------------------------------------
 */

static void sb_take(struct peer *sb, const struct letter *l)
{
    unsigned i = index_of(sb);
    uint32_t n = rig_rid_number(&l->head.rid);

    if (l->head.type == MSG_WELCOME) {
        sb->is_up = true;
        return;
    }
    if (l->head.type != MSG_SBX_CALL) {
        return;
    }
    if (l->op == MSG_SBX_CLOSE) {
        s.requests[n].has_box[i] = false;
        return; /* the broker's own: its answer is of no interest */
    }
    if ((n + (l->number >> 8)) % 3 != 0) {
        s.requests[n].has_box[i] = true;
    }
    for (unsigned k = 0; k < INBOX_MAX; k++) {
        if (!s.work[i][k].is_there) {
            s.work[i][k] = (struct work){.request = n, .number = l->number, .is_there = true};
            return;
        }
    }
    NEED(false); /* room for another call */
}

static void sb_work(struct peer *sb)
{
    unsigned i = index_of(sb);
    unsigned start = rnd(INBOX_MAX);

    if (!sb->is_up) {
        return;
    }
    for (unsigned k = 0; k < INBOX_MAX; k++) {
        struct work *w = &s.work[i][(start + k) % INBOX_MAX];

        if (w->is_there) {
            if (rnd(2) == 0) {
                rig_output(&s.rig, sb->id, w->request, w->number, "x");
            }
            w->is_there = false;
            rig_result(&s.rig, sb->id, w->request, w->number);
            return;
        }
    }
}

/* --- life and death
 * -------------------------------------------------------------------------------------------------------
 */

static void peer_hello(struct peer *p)
{
    s.rig.instance = p->incarnation;
    p->is_up = false;
    inbox_clear(p);
    p->beat_ms = s.rig.now_ms;
    if (p->role == MSG_ROLE_WORKER) {
        wk_hello(p);
    } else {
        rig_hello(&s.rig, p->id, p->role, p->capacity);
    }
}

static void peer_start(struct peer *p)
{
    p->is_alive = true;
    p->is_leaving = false;
    p->incarnation++;
    p->capacity = 1 + rnd(5);
    peer_hello(p);
}

static void forget_work_of(struct peer *p)
{
    unsigned i = index_of(p);

    if (p->role == MSG_ROLE_SANDBOXD) {
        memset(s.work[i], 0, sizeof(s.work[i]));
    }
    for (unsigned n = 0; n < s.request_count; n++) {
        struct request *q = &s.requests[n];

        if (p->role == MSG_ROLE_SANDBOXD) {
            q->has_box[i] = false;
        } else if (p->role == MSG_ROLE_FRONTEND && q->fe == i && q->is_open && is_mine(q, p)) {
            q->is_open = false; /* its client is gone with it */
        }
        for (unsigned a = 1; a <= 2 && p->role == MSG_ROLE_WORKER; a++) {
            if (q->run[a].wk == i) {
                q->run[a].state = RUN_NONE;
            }
        }
    }
}

static void peer_die(struct peer *p)
{
    bool was_known = p->is_up;

    s.deaths++;
    forget_work_of(p);
    p->is_alive = p->is_up = false;
    inbox_clear(p);
    if (was_known && rnd(4) != 0) {
        rig_exited(&s.rig, p->id, rnd(2) == 0 ? BR_EV_EXITED : BR_EV_UNREACHABLE);
    } /* else: its silence tells, or its successor's HELLO */
}

static void broker_restart(void)
{
    s.restarts++;
    rig_restart(&s.rig);
    for (unsigned i = 0; i < PEERS; i++) {
        s.peers[i].is_up = false;
        inbox_clear(&s.peers[i]);
    }
}

static void take_one(struct peer *p)
{
    struct letter l;

    if (p->count == 0) {
        return;
    }
    l = p->inbox[p->first];
    p->first = (p->first + 1) % INBOX_MAX;
    p->count--;
    if (l.head.type == MSG_BYE) {
        p->is_up = false;
        return;
    }
    if (p->role == MSG_ROLE_FRONTEND) {
        fe_take(p, &l);
    } else if (p->role == MSG_ROLE_WORKER) {
        wk_take(p, &l);
    } else {
        sb_take(p, &l);
    }
}

static void beat_all(void)
{
    for (unsigned i = 0; i < PEERS; i++) {
        struct peer *p = &s.peers[i];

        if (p->is_alive && p->is_up && s.rig.now_ms - p->beat_ms >= 1000) {
            p->beat_ms = s.rig.now_ms;
            rig_beat(&s.rig, p->id);
        }
    }
}

static void cancel_one(void)
{
    uint32_t n = s.request_count > 0 ? rnd(s.request_count) : 0;
    struct request *q = &s.requests[n];
    struct peer *fe = peer_at(MSG_ROLE_FRONTEND, q->fe);

    if (s.request_count > 0 && q->is_open && is_mine(q, fe) && fe->is_up) {
        request_end(q);
        rig_cancel(&s.rig, fe->id, n);
    }
}

static void trouble(struct peer *p)
{
    switch (rnd(12)) {
    case 0:
        if (p->is_alive && rnd(3) == 0) {
            peer_die(p);
        }
        break;
    case 1:
        if (!s.is_calm && rnd(12) == 0) {
            broker_restart();
        }
        break;
    case 2:
        if (!s.is_calm && p->is_alive && p->is_up && rnd(4) == 0) {
            peer_hello(p); /* a reconnect */
        }
        break;
    case 3:
        if (p->role == MSG_ROLE_WORKER && p->is_up && !p->is_leaving && rnd(4) == 0) {
            p->is_leaving = true;
            rig_bye(&s.rig, p->id);
        }
        break;
    case 4:
        cancel_one();
        break;
    default:
        break;
    }
}

static void one_step(void)
{
    struct peer *p = &s.peers[rnd(PEERS)];

    s.step++;
    if (!p->is_alive || (p->is_leaving && wk_running(p) == 0 && rnd(4) == 0)) {
        if (p->is_alive) {
            peer_die(p);
        }
        if (s.is_quiet || rnd(8) == 0) {
            peer_start(p);
        }
    } else if (!p->is_up && p->count == 0) {
        peer_hello(p);
    }
    take_one(p);
    if (p->is_alive && p->role == MSG_ROLE_FRONTEND && !s.is_quiet && rnd(2) == 0) {
        fe_new_request(p);
    } else if (p->is_alive && p->role == MSG_ROLE_WORKER) {
        wk_work(p);
    } else if (p->is_alive && p->role == MSG_ROLE_SANDBOXD) {
        sb_work(p);
    }
    if (!s.is_quiet) {
        trouble(p);
    }
    beat_all();
    rig_wait(&s.rig, rnd(s.is_quiet ? 60 : 20));
}

static void check_end(void)
{
    struct br_counts n;

    br_core_counts(s.rig.core, s.rig.now_ms, &n);
    for (unsigned i = 0; i < s.request_count; i++) {
        const struct request *q = &s.requests[i];

        if (q->is_open) {
            fprintf(stderr, "request %u of fe%u (started %d): attempt %u, runs %d %d\n", i, q->fe,
                    q->is_started, q->attempt, (int)q->run[1].state, (int)q->run[2].state);
        }
        NEED(!q->is_open);
        NEED(q->ends <= 1);
        NEED(q->run[1].state == RUN_NONE && q->run[2].state == RUN_NONE);
        for (unsigned k = 0; k < SBS && s.is_calm; k++) {
            NEED(!q->has_box[k]);
        }
    }
    NEED(n.queued == 0 && n.grace == 0 && n.running == 0 && n.claimed == 0 && n.limbo == 0);
    NEED(n.calls == 0);
}

static void run_seed(uint64_t seed, uint32_t traced)
{
    static const char *const names[] = {"fe", "wk", "sb"};

    memset(&s, 0, sizeof(s));
    s.traced = traced;
    s.seed = seed;
    s.random = seed * 0x9E3779B97F4A7C15U + 1;
    s.is_calm = seed % 2 == 0;
    rig_init(&s.rig);
    s.rig.on_out = on_out;
    s.rig.on_in = on_in;
    s.rig.setup.limits.fair = seed % 3 == 0 ? BR_FAIR_IN_FLIGHT : BR_FAIR_ROUND_ROBIN;
    s.rig.setup.limits.queue_max = 20 + rnd(200);
    s.rig.setup.limits.per_key_max = 5 + rnd(50);
    s.rig.setup.limits.queue_wait_ms = 2000 + rnd(20000);
    rig_restart(&s.rig);
    for (unsigned i = 0; i < PEERS; i++) {
        s.peers[i].role = i < FES         ? MSG_ROLE_FRONTEND
                          : i < FES + WKS ? MSG_ROLE_WORKER
                                          : MSG_ROLE_SANDBOXD;
        (void)snprintf(s.peers[i].id, sizeof(s.peers[i].id), "%s%u", names[s.peers[i].role - 1],
                       index_of(&s.peers[i]));
        if (rnd(3) != 0) {
            peer_start(&s.peers[i]);
        }
    }
    for (unsigned i = 0; i < STEPS; i++) {
        one_step();
    }
    s.is_quiet = true;
    for (unsigned i = 0; i < 6000; i++) {
        one_step();
    }
    check_end();
    rig_fini(&s.rig);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : 60;
    unsigned requests = 0;
    unsigned restarts = 0;
    unsigned deaths = 0;

    log_init("sim");
    log_set_level(LOG_LEVEL_ERROR);
    if (id_init() != 0) {
        return 1;
    }
    for (uint64_t seed = first; seed < first + count; seed++) {
        run_seed(seed, argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : UINT32_MAX);
        requests += s.request_count;
        restarts += s.restarts;
        deaths += s.deaths;
    }
    printf("%llu seeds: %u requests, %u deaths, %u broker restarts\n", (unsigned long long)count,
           requests, deaths, restarts);
    return requests > 0 && deaths > 0 ? 0 : 1; /* a simulation that did nothing proves nothing */
}
