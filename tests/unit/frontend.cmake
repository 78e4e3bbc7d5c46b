cfd_unit_test(test_fe_http SOURCES unit/test_fe_http.c LINKS cfd_fe_http)
