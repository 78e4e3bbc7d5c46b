cfd_fuzz(fuzz_zygote_frame SOURCES fuzz/fuzz_zygote_frame.c LINKS cfd_sb_local)
