# The reference package as a judge of what we write; needs ONELOOK_REFERENCE_PYTHON.
add_test(NAME reference_package COMMAND ${CMAKE_SOURCE_DIR}/tests/reference/run.sh $<TARGET_FILE:yolo> ${CMAKE_SOURCE_DIR}/../shared)
set_tests_properties(reference_package PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
