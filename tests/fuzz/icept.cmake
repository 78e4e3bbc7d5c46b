set(ICEPT_DIR ${CMAKE_SOURCE_DIR}/workers/icept)
set(ICEPT_RULES ${CMAKE_SOURCE_DIR}/workers/wk_lex.c ${CMAKE_SOURCE_DIR}/workers/wk_scan.c ${CMAKE_SOURCE_DIR}/workers/wk_headers.c ${CMAKE_SOURCE_DIR}/workers/wk_redact.c)
cfd_fuzz(fuzz_wk_sse SOURCES fuzz/fuzz_wk_sse.c ${ICEPT_DIR}/wk_sse.c LINKS cfd_base)
cfd_fuzz(fuzz_ic_args SOURCES fuzz/fuzz_ic_args.c ${ICEPT_DIR}/ic_args.c ${ICEPT_DIR}/ic_json.c ${ICEPT_DIR}/ic_json_text.c LINKS cfd_base)
cfd_fuzz(fuzz_ic_request SOURCES fuzz/fuzz_ic_request.c ${ICEPT_DIR}/ic_request.c ${ICEPT_DIR}/ic_tools.c
    ${ICEPT_DIR}/ic_history.c ${ICEPT_DIR}/ic_json.c ${ICEPT_DIR}/ic_json_text.c ${ICEPT_RULES} LINKS cfd_base)
cfd_fuzz(fuzz_icept SOURCES fuzz/fuzz_icept.c support/fake_job.c support/fake_model.c ${ICEPT_RULES}
    LINKS cfd_icept cfd_config cfd_proto cfd_base)
foreach(t fuzz_wk_sse fuzz_ic_args fuzz_ic_request fuzz_icept)
    target_include_directories(${t} PRIVATE support ${ICEPT_DIR} ${CMAKE_SOURCE_DIR}/workers)
endforeach()
