cfd_fuzz(fuzz_wk_scan SOURCES fuzz/fuzz_wk_scan.c ${CMAKE_SOURCE_DIR}/workers/wk_scan.c ${CMAKE_SOURCE_DIR}/workers/wk_lex.c LINKS cfd_base PkgConfig::JANSSON)
target_include_directories(fuzz_wk_scan PRIVATE ${CMAKE_SOURCE_DIR}/workers)
