# The one list of warnings and of hardening flags; every target of ours links wakegate_flags.
add_library(wakegate_flags INTERFACE)
target_compile_options(wakegate_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
  -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wformat=2 -Wundef -Werror
  -fno-strict-aliasing -fno-omit-frame-pointer)
target_compile_definitions(wakegate_flags INTERFACE _GNU_SOURCE)
target_include_directories(wakegate_flags INTERFACE ${CMAKE_SOURCE_DIR}/include)
if(WAKEGATE_SANITIZE)
  target_compile_options(wakegate_flags INTERFACE -fsanitize=${WAKEGATE_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(wakegate_flags INTERFACE -fsanitize=${WAKEGATE_SANITIZE})
elseif(CMAKE_BUILD_TYPE STREQUAL "Release" OR CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  target_compile_options(wakegate_flags INTERFACE -D_FORTIFY_SOURCE=2 -fstack-protector-strong)
endif()
if(WAKEGATE_FUZZ)
  target_compile_options(wakegate_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
