foreach(thing values faults checks documents)
  wakegate_unit_test(test_config_${thing} DEPS config base)
  target_compile_definitions(test_config_${thing} PRIVATE WAKEGATE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
endforeach()
# It asks the table of options itself what there is.
target_include_directories(test_config_documents PRIVATE ${CMAKE_SOURCE_DIR}/src/config)
