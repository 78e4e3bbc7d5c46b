#include "base/check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/ring.h"

static atomic_ulong soft_failures;

/* Only write(2): we do not know what is broken. */
static void say(const char *s)
{
    ssize_t n = write(STDERR_FILENO, s, strlen(s));

    (void)n; /* nobody left to tell */
}

void check_failed(const char *grade, const char *cond, const char *file, int line)
{
    char digits[16];
    size_t i = sizeof(digits) - 1;
    unsigned rest = line > 0 ? (unsigned)line : 0;

    digits[i] = '\0';
    do {
        digits[--i] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    say(grade);
    say(" failed: ");
    say(cond);
    say(" at ");
    say(file);
    say(":");
    say(digits + i);
    say("\n");
    ring_dump(STDERR_FILENO);
    abort();
}

bool check_soft_failed(const char *cond, const char *file, int line)
{
    atomic_fetch_add_explicit(&soft_failures, 1, memory_order_relaxed);
    ring_note("check", (uint64_t)line, file, cond, "soft check failed");
    LOG(CHECK_FAILED, NULL, KV_S("condition", cond), KV_S("file", file), KV_I("line", line));
    return false;
}

unsigned long check_soft_count(void)
{
    return atomic_load_explicit(&soft_failures, memory_order_relaxed);
}
