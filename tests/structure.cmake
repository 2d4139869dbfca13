# The order of the rooms and self-contained headers.
add_test(NAME include_order COMMAND ${CMAKE_SOURCE_DIR}/tools/check_includes.sh)
