cfd_unit_test(test_provider_local
    SOURCES contract/test_provider_local.c contract/provider_contract.c
    LINKS cfd_sb_local)
set_tests_properties(test_provider_local PROPERTIES TIMEOUT 300)
add_dependencies(test_provider_local cofferdam-zygote)
