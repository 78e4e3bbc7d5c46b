cfd_unit_test(test_zygote_proto SOURCES unit/test_zygote_proto.c LINKS cfd_zygote_proto)
cfd_unit_test(test_sb_local_text SOURCES unit/test_sb_local_text.c LINKS cfd_sb_local)
cfd_unit_test(test_sb_local_json SOURCES unit/test_sb_local_json.c LINKS cfd_sb_local)
add_test(NAME test_zygote_check
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_zygote_check.py $<TARGET_FILE:cofferdam-zygote>)
set_tests_properties(test_zygote_check PROPERTIES TIMEOUT 240)
add_test(NAME test_zygote_runner COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_zygote_runner.py)
set_tests_properties(test_zygote_runner PROPERTIES TIMEOUT 60)
