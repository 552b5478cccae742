foreach(target h1_request h1_response h1_chunk)
  wakegate_fuzz(${target} DEPS http event base)
endforeach()
