# The loop with a fake job: the worker's own functions are replaced, its pure rules (wk_scan, wk_headers) are the real ones.
set(ICEPT_FAKES support/fake_job.c support/fake_model.c support/fake_client.c unit/icept_scenario.c
    ${CMAKE_SOURCE_DIR}/workers/wk_scan.c ${CMAKE_SOURCE_DIR}/workers/wk_headers.c)
cfd_unit_test(test_icept SOURCES unit/test_icept.c ${ICEPT_FAKES}
    LINKS cfd_icept cfd_config cfd_proto cfd_base PkgConfig::JANSSON)
target_include_directories(test_icept PRIVATE support unit ${CMAKE_SOURCE_DIR}/workers)
