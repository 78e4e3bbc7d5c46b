cfd_unit_test(test_msg SOURCES contract/test_msg.c LINKS cfd_proto)
cfd_unit_test(test_msg_golden SOURCES contract/test_msg_golden.c LINKS cfd_proto)
add_test(NAME msg_doc COMMAND msg_doc --check common/proto/PROTOCOL.md tests/fuzz/fuzz_msg.dict
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
