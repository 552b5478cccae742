wakegate_unit_test(test_admin_pages DEPS admin activator base PkgConfig::JANSSON)
wakegate_unit_test(test_admin DEPS admin activator target fetch http event config base PkgConfig::JANSSON
  PkgConfig::NGHTTP2)
target_include_directories(test_admin_pages PRIVATE ${CMAKE_SOURCE_DIR}/src)
