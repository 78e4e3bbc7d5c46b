#include "os/os_priv.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int os_priv_drop_caps(struct err *e)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];

    memset(none, 0, sizeof(none));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return err_set(e, ERR_HOST, "the kernel refused no_new_privs (errno %d)", errno);
    }
    for (unsigned long cap = 0; cap < 64; cap++) {
        /* EINVAL: past the last capability; EPERM: nothing to drop from, as an ordinary user */
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0 && errno != EINVAL && errno != EPERM) {
            return err_set(e, ERR_HOST, "the kernel refused to drop capability %lu (errno %d)", cap,
                           errno);
        }
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL) {
        return err_set(e, ERR_HOST, "the kernel refused to clear ambient capabilities (errno %d)",
                       errno);
    }
    if (syscall(SYS_capset, &head, none) != 0) {
        return err_set(e, ERR_HOST, "the kernel refused to drop capabilities (errno %d)", errno);
    }
    return 0;
}

int os_priv_no_dump(struct err *e)
{
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        return err_set(e, ERR_HOST, "the kernel refused to forbid core dumps (errno %d)", errno);
    }
    return 0;
}
