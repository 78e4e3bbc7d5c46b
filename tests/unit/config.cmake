cfd_unit_test(test_cfg SOURCES unit/test_cfg.c LINKS cfd_config)
cfd_unit_test(test_cfg_bad SOURCES unit/test_cfg_bad.c LINKS cfd_config)
cfd_unit_test(test_cfg_example SOURCES unit/test_cfg_example.c LINKS cfd_config)
