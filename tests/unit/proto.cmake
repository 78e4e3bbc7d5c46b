cfd_unit_test(test_wire SOURCES unit/test_wire.c LINKS cfd_proto)
cfd_unit_test(test_msg_head SOURCES unit/test_msg_head.c LINKS cfd_proto)
