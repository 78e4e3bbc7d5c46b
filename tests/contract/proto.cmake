cfd_unit_test(test_msg SOURCES contract/test_msg.c LINKS cfd_proto)
cfd_unit_test(test_msg_golden SOURCES contract/test_msg_golden.c LINKS cfd_proto)
