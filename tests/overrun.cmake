# Reaches outside its memory on purpose: shows that a checker of accesses (tools/sanitize_gpu.sh) looks.
add_executable(overrun ${CMAKE_CURRENT_SOURCE_DIR}/overrun/overrun.c)
target_link_libraries(overrun PRIVATE test_support onelook_warnings)
