/* zg_probe.h - probe.py as bytes, NUL-terminated; the array is generated at build time
 * (embed.cmake). */
#ifndef CFD_SANDBOXD_ZG_PROBE_H
#define CFD_SANDBOXD_ZG_PROBE_H

extern const unsigned char zg_probe_source[];

#endif
