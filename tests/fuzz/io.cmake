cfd_fuzz(fuzz_io SOURCES fuzz/fuzz_io.c LINKS cfd_curl PkgConfig::CURL)
