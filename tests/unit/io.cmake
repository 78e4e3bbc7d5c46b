cfd_unit_test(test_closer SOURCES unit/test_closer.c LINKS cfd_io)
cfd_unit_test(test_plane SOURCES unit/test_plane.c LINKS cfd_io)
