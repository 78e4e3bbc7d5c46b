cfd_unit_test(test_os SOURCES unit/test_os.c LINKS cfd_os)
