add_library(br_rig STATIC ${CMAKE_CURRENT_LIST_DIR}/br_rig.c)
target_include_directories(br_rig PUBLIC ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(br_rig PUBLIC cfd_broker_core PRIVATE cfd_flags PkgConfig::CMOCKA)

cfd_unit_test(test_br_stories SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_br_stories.c LINKS br_rig)
cfd_unit_test(sim_br SOURCES ${CMAKE_CURRENT_LIST_DIR}/sim_br.c LINKS br_rig)
