cfd_unit_test(test_br_daemon SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_br_daemon.c LINKS cfd_broker)
cfd_unit_test(test_br_fault SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_br_fault.c LINKS br_rig)
cfd_unit_test(test_br_core SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_br_core.c LINKS br_rig cfd_broker)
