foreach(thing slice list buf blocks map quantity log metrics)
  wakegate_unit_test(test_${thing} DEPS base)
endforeach()
