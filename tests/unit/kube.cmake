wakegate_unit_test(test_kube_objects DEPS kube base)
foreach(test test_kube_objects)
  target_include_directories(${test} PRIVATE ${CMAKE_SOURCE_DIR}/src/kube)
endforeach()
