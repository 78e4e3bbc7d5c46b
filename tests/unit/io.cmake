cfd_unit_test(test_closer SOURCES unit/test_closer.c LINKS cfd_io)
cfd_unit_test(test_loop SOURCES unit/test_loop.c LINKS cfd_io)
cfd_unit_test(test_plane SOURCES unit/test_plane.c LINKS cfd_io)
cfd_unit_test(test_plane_curve SOURCES unit/test_plane_curve.c LINKS cfd_io)
cfd_unit_test(test_link SOURCES unit/test_link.c LINKS cfd_io)
cfd_unit_test(test_uvcurl SOURCES unit/test_uvcurl.c LINKS cfd_curl)
cfd_unit_test(test_uvcurl_tls SOURCES unit/test_uvcurl_tls.c LINKS cfd_curl)
cfd_unit_test(test_uvcurl_text SOURCES unit/test_uvcurl_text.c LINKS cfd_curl PkgConfig::CURL)
set_tests_properties(test_plane test_plane_curve test_link PROPERTIES
    ENVIRONMENT "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/tsan.supp")

# Measured by hand, see the file.
add_executable(plane_bench bench/plane_bench.c)
target_link_libraries(plane_bench PRIVATE cfd_flags cfd_io)
set_target_properties(plane_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
