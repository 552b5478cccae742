foreach(test test_tls test_tls_session test_tls_tickets)
  wakegate_unit_test(${test} DEPS tls base)
endforeach()
target_include_directories(test_tls_tickets PRIVATE ${CMAKE_SOURCE_DIR}/src/tls)
