#include <stdio.h>

#include "base/mem.h"
#include "ctl.h"
#include "io/plane.h"

int ctl_cmd_keygen(const struct ctl_opts *o)
{
    char public_key[41];
    char secret_key[41];

    (void)o;
    if (plane_curve_keypair(public_key, secret_key) != 0) {
        (void)fprintf(stderr, "cofferdam: this libzmq has no CURVE support\n");
        return 1;
    }
    (void)printf("curve:\n  public_key: \"%s\"\n  secret_key: \"%s\"\n", public_key, secret_key);
    mem_wipe(secret_key, sizeof(secret_key));
    return fflush(stdout) == 0 ? 0 : 1;
}
