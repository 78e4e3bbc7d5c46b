#include "zg_child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zg_files.h"
#include "zg_out.h"
#include "zg_python.h"

/* One RUN or FILE frame from sandboxd, which is trusted; still bounded. 1, 0 = owner gone, -1. */
static int frame_read(struct zyp_frame *ret, char **ret_body)
{
    uint8_t head[ZYP_FRAME_HEAD];
    int rc = zg_read_all(ZG_FD_STREAM, head, sizeof(head));

    if (rc != 1) {
        return rc;
    }
    if (zyp_frame_decode(ret, head, sizeof(head), false) != 0 ||
        (ret->type == ZYP_FRAME_RUN && ret->len < ZYP_RUN_HEAD)) {
        return -1;
    }
    char *body = malloc(ret->len + 1U);

    if (body == NULL) {
        return -1;
    }
    if (ret->len > 0 && zg_read_all(ZG_FD_STREAM, body, ret->len) != 1) {
        free(body);
        return -1;
    }
    *ret_body = body;
    return 1;
}

_Noreturn void zg_child_main(const struct zg_jail *j, unsigned host_id, int stream)
{
    static struct zg_err e;
    struct zyp_frame f;
    struct zyp_run run;
    char *body = NULL;
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
        if (frame_read(&f, &body) != 1) {
            _exit(0);
        }
        if (f.type == ZYP_FRAME_FILE) {
            zg_files_do(body, f.len);
            free(body);
            if (is_started) {
                zg_python_idle_end();
            }
            continue;
        }
        if (zyp_run_decode(&run, body, f.len) != 0) {
            _exit(1);
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
            zg_python_run(body + ZYP_RUN_HEAD, f.len - ZYP_RUN_HEAD, run.cpu_s);
            zg_files_changed(0);
        }
        zg_out_run_end();
        free(body);
    }
}
