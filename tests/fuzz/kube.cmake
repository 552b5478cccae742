wakegate_fuzz(kube_scale DEPS kube base)
target_include_directories(fuzz_kube_scale PRIVATE ${CMAKE_SOURCE_DIR}/src/kube)
