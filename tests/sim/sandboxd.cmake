cfd_unit_test(test_sb_core
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_sb_core.c ${CMAKE_CURRENT_LIST_DIR}/fake_provider.c
    LINKS cfd_sb_core)
