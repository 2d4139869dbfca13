# What the program says about AMD devices, with a stand-in for AMD's runtime.
add_library(hip_double SHARED ${CMAKE_SOURCE_DIR}/tests/support/doubles/hip_double.c)
target_include_directories(hip_double PRIVATE ${CMAKE_SOURCE_DIR}/src)
set_target_properties(hip_double PROPERTIES OUTPUT_NAME amdhip64 SOVERSION 6 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/doubles
  C_VISIBILITY_PRESET hidden)
add_test(NAME cli_gpu_checks COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/gpu_checks.sh $<TARGET_FILE:yolo> ${CMAKE_BINARY_DIR}/tests/doubles)
set_tests_properties(cli_gpu_checks PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME cli_device_failure COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/device_failure.sh $<TARGET_FILE:yolo> ${CMAKE_BINARY_DIR}/tests/doubles)
set_tests_properties(cli_device_failure PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
