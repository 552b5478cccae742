foreach(thing slot queue eta hold wake reload probe)
  wakegate_unit_test(test_${thing} DEPS activator target openai fetch event config base)
endforeach()

# The protocols themselves, in every interleaving. Without spin the test fails, and the program is built all the same.
add_test(NAME model_check COMMAND ${CMAKE_SOURCE_DIR}/tests/model/run spin ${CMAKE_C_COMPILER})
set_tests_properties(model_check PROPERTIES TIMEOUT 300)
