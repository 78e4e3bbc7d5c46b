cfd_unit_test(test_provider_local
    SOURCES contract/test_provider_local.c contract/provider_contract.c
    LINKS cfd_sb_local)
set_tests_properties(test_provider_local PROPERTIES TIMEOUT 300)
add_dependencies(test_provider_local cofferdam-zygote)

# Numbers for people, run by hand: build/bench/bench_sandbox [rounds].
add_executable(bench_sandbox bench/sandbox_bench.c)
target_link_libraries(bench_sandbox PRIVATE cfd_flags cfd_sb_local)
set_target_properties(bench_sandbox PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)

add_test(NAME test_local_owner
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/contract/test_local_owner.py $<TARGET_FILE:cofferdam-zygote>)
set_tests_properties(test_local_owner PROPERTIES TIMEOUT 240)

# The escape suite: attacks from inside real sandboxes, judged from outside; as root and as an ordinary user.
add_executable(box_host escape/box_host.c)
target_link_libraries(box_host PRIVATE cfd_flags cfd_sb_local)
set_target_properties(box_host PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set(ESCAPE_OPTIONS)
if(CFD_SANITIZE)
    set(ESCAPE_OPTIONS --sanitized)
endif()
add_test(NAME test_escape
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/escape/run.py $<TARGET_FILE:box_host> ${ESCAPE_OPTIONS})
set_tests_properties(test_escape PROPERTIES TIMEOUT 900)
add_test(NAME test_leaks
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/escape/leaks.py $<TARGET_FILE:box_host> 150 8)
set_tests_properties(test_leaks PROPERTIES TIMEOUT 600)
add_test(NAME test_local_reload
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/contract/test_local_reload.py $<TARGET_FILE:box_host>)
set_tests_properties(test_local_reload PROPERTIES TIMEOUT 240)
# They judge delays and count what is left on the host: nothing else of the suite runs beside them.
set_tests_properties(test_escape test_leaks test_local_owner PROPERTIES RUN_SERIAL TRUE)
