# The loop with a fake job: the worker's own functions are replaced, its pure rules (wk_scan, wk_headers) are the real ones.
set(ICEPT_FAKES support/fake_job.c support/fake_model.c support/fake_client.c unit/icept_scenario.c
    ${CMAKE_SOURCE_DIR}/workers/wk_lex.c ${CMAKE_SOURCE_DIR}/workers/wk_scan.c ${CMAKE_SOURCE_DIR}/workers/wk_headers.c ${CMAKE_SOURCE_DIR}/workers/wk_redact.c)
foreach(t test_icept test_icept_odd test_icept_errors test_icept_match test_icept_provider)
    cfd_unit_test(${t} SOURCES unit/${t}.c ${ICEPT_FAKES}
        LINKS cfd_icept cfd_config cfd_proto cfd_base PkgConfig::JANSSON)
    target_include_directories(${t} PRIVATE support unit ${CMAKE_SOURCE_DIR}/workers)
endforeach()

set(ICEPT_DIR ${CMAKE_SOURCE_DIR}/workers/icept)
cfd_unit_test(test_wk_run SOURCES unit/test_wk_run.c ${ICEPT_DIR}/wk_run.c LINKS cfd_base)
cfd_unit_test(test_wk_sse SOURCES unit/test_wk_sse.c ${ICEPT_DIR}/wk_sse.c LINKS cfd_base)
cfd_unit_test(test_ic_json SOURCES unit/test_ic_json.c ${ICEPT_DIR}/ic_json.c ${ICEPT_DIR}/ic_json_text.c ${ICEPT_DIR}/ic_usage.c LINKS cfd_base)
cfd_unit_test(test_ic_args SOURCES unit/test_ic_args.c ${ICEPT_DIR}/ic_args.c ${ICEPT_DIR}/ic_json.c ${ICEPT_DIR}/ic_json_text.c LINKS cfd_base)
cfd_unit_test(test_ic_output SOURCES unit/test_ic_output.c ${ICEPT_DIR}/ic_output.c ${ICEPT_DIR}/ic_json.c ${ICEPT_DIR}/ic_json_text.c LINKS cfd_base)
cfd_unit_test(test_ic_utf8 SOURCES unit/test_ic_utf8.c ${ICEPT_DIR}/ic_utf8.c LINKS cfd_base)
foreach(t test_wk_run test_wk_sse test_ic_json test_ic_args test_ic_output test_ic_utf8)
    target_include_directories(${t} PRIVATE support ${ICEPT_DIR})
endforeach()
cfd_unit_test(test_ic_request SOURCES unit/test_ic_request.c support/fake_job.c
    ${CMAKE_SOURCE_DIR}/workers/wk_lex.c ${CMAKE_SOURCE_DIR}/workers/wk_scan.c ${CMAKE_SOURCE_DIR}/workers/wk_headers.c ${CMAKE_SOURCE_DIR}/workers/wk_redact.c
    LINKS cfd_icept cfd_config cfd_proto cfd_base PkgConfig::JANSSON)
target_include_directories(test_ic_request PRIVATE support ${CMAKE_SOURCE_DIR}/workers)
cfd_unit_test(test_wk_redact SOURCES unit/test_wk_redact.c ${CMAKE_SOURCE_DIR}/workers/wk_redact.c LINKS cfd_config cfd_proto cfd_base)
target_include_directories(test_wk_redact PRIVATE support ${CMAKE_SOURCE_DIR}/workers)
