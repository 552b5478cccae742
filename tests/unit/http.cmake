foreach(test test_front test_back test_http_message test_h1_request test_h1_response test_h1_chunk)
  wakegate_unit_test(${test} DEPS http event base)
endforeach()
