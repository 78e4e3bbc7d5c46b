cfd_fuzz(fuzz_cfg SOURCES fuzz/fuzz_cfg.c LINKS cfd_config)
