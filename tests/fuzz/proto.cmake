cfd_fuzz(fuzz_msg SOURCES fuzz/fuzz_msg.c LINKS cfd_proto)
