cfd_unit_test(test_ctl_backoff SOURCES unit/test_ctl_backoff.c LINKS cfd_ctl)
add_test(NAME test_ctl_up COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/unit/test_ctl_up.py $<TARGET_FILE:cofferdam>)
set_tests_properties(test_ctl_up PROPERTIES TIMEOUT 180)
