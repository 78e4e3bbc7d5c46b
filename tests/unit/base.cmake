foreach(part buf check clock err heap id list log map mem metric ring secret sm str)
    cfd_unit_test(test_${part} SOURCES unit/test_${part}.c LINKS cfd_base)
endforeach()
cfd_unit_test(test_str_json SOURCES unit/test_str_json.c LINKS cfd_base PkgConfig::JANSSON)
