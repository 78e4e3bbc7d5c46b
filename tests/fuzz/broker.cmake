cfd_fuzz(fuzz_br_core SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_br_core.c LINKS cfd_broker_core)
