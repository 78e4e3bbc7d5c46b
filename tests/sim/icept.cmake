cfd_unit_test(sim_wk_run SOURCES sim/sim_wk_run.c ${CMAKE_SOURCE_DIR}/workers/icept/wk_run.c LINKS cfd_base)
target_include_directories(sim_wk_run PRIVATE support ${CMAKE_SOURCE_DIR}/workers/icept)
