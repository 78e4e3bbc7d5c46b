cfd_unit_test(test_br_daemon SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_br_daemon.c LINKS cfd_broker)
