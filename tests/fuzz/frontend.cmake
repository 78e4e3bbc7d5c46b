cfd_fuzz(fuzz_fe_http SOURCES fuzz/fuzz_fe_http.c LINKS cfd_fe_http)
cfd_fuzz(fuzz_fe_sse SOURCES fuzz/fuzz_fe_sse.c LINKS cfd_fe_sse PkgConfig::JANSSON)
