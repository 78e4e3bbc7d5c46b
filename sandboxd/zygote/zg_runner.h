/* zg_runner.h - runner.py as bytes, NUL-terminated; the array is generated at build time
 * (embed.cmake). */
#ifndef CFD_SANDBOXD_ZG_RUNNER_H
#define CFD_SANDBOXD_ZG_RUNNER_H

extern const unsigned char zg_runner_source[];

#endif
