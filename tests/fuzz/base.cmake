foreach(target fuzz_json_str fuzz_map fuzz_metric)
    cfd_fuzz(${target} SOURCES fuzz/${target}.c LINKS cfd_base)
endforeach()
