foreach(target h1_request h1_response h1_chunk h2_head front_h2)
  wakegate_fuzz(${target} DEPS http event base)
endforeach()
target_include_directories(fuzz_h2_head PRIVATE ${CMAKE_SOURCE_DIR}/src)
# Its clock stands until the script moves it: every run of an input is the same.
target_link_options(fuzz_front_h2 PRIVATE -Wl,--wrap=wg_clock_monotonic)
