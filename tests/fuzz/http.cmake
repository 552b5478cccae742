foreach(target h1_request h1_response h1_chunk h2_head)
  wakegate_fuzz(${target} DEPS http event base)
endforeach()
target_include_directories(fuzz_h2_head PRIVATE ${CMAKE_SOURCE_DIR}/src)
