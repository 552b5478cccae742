foreach(test test_fetch test_fetch_stream)
  wakegate_unit_test(${test} DEPS fetch event base)
endforeach()
wakegate_unit_test(test_fetch_tls DEPS fetch event base PkgConfig::OPENSSL)
