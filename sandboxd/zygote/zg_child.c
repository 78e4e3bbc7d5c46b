#include "zg_child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zg_out.h"
#include "zg_python.h"

/* One RUN frame from sandboxd, which is trusted; still bounded. 1, 0 = owner gone, -1. */
static int run_read(struct zyp_run *ret, char **ret_code, size_t *ret_n)
{
    uint8_t head[ZYP_FRAME_HEAD];
    struct zyp_frame f;
    int rc = zg_read_all(ZG_FD_STREAM, head, sizeof(head));

    if (rc != 1) {
        return rc;
    }
    if (zyp_frame_decode(&f, head, sizeof(head), false) != 0 || f.type != ZYP_FRAME_RUN ||
        f.len < ZYP_RUN_HEAD) {
        return -1;
    }
    char *body = malloc(f.len);

    if (body == NULL) {
        return -1;
    }
    if (zg_read_all(ZG_FD_STREAM, body, f.len) != 1 || zyp_run_decode(ret, body, f.len) != 0) {
        free(body);
        return -1;
    }
    *ret_code = body;
    *ret_n = f.len - ZYP_RUN_HEAD;
    return 1;
}

_Noreturn void zg_child_main(const struct zg_jail *j, unsigned host_id, int stream)
{
    static struct zg_err e;
    struct zyp_run run;
    char *body = NULL;
    size_t n = 0;
    bool is_started = false;

    if (zg_jail_enter(j, host_id, stream, &e) != 0) {
        if (stream != ZG_FD_STREAM) {
            (void)dup2(
                stream,
                ZG_FD_STREAM); /* fails when that step is behind us: then it is there already */
        }
        zg_out_send(ZYP_FRAME_FAILED, e.text, strlen(e.text));
        _exit(1);
    }
    zg_out_send(ZYP_FRAME_READY, NULL, 0);
    for (;;) {
        if (is_started) {
            zg_python_idle_begin();
        }
        if (run_read(&run, &body, &n) != 1) {
            _exit(0);
        }
        if (is_started) {
            zg_python_idle_end();
        } else {
            zg_out_init();
            if (zg_python_child_start() != 0 || zg_out_start() != 0) {
                _exit(1);
            }
            is_started = true;
        }
        zg_out_run_begin(run.run, run.output_max);
        if (run.run == 0) {
            zg_python_warm();
        } else {
            zg_python_run(body + ZYP_RUN_HEAD, n, run.cpu_s);
        }
        zg_out_run_end();
        free(body);
    }
}
