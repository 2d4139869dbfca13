# The program from outside.
add_test(NAME cli_docs COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/docs.sh $<TARGET_FILE:yolo> ${CMAKE_SOURCE_DIR}/docs/cli.md)
file(GLOB transcripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cli/transcripts/*.transcript)
foreach(transcript ${transcripts})
  get_filename_component(name ${transcript} NAME_WE)
  add_test(NAME cli_transcript_${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/transcript.sh $<TARGET_FILE:yolo> ${transcript})
  set_tests_properties(cli_transcript_${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
endforeach()

add_test(NAME cli_bad_input COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/bad_input.sh $<TARGET_FILE:yolo>)
set_tests_properties(cli_bad_input PROPERTIES TIMEOUT 900)

add_test(NAME cli_arguments COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/arguments.sh $<TARGET_FILE:yolo>)
set_tests_properties(cli_arguments PROPERTIES TIMEOUT 900)

add_test(NAME cli_field_cases COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/field_cases.sh $<TARGET_FILE:yolo> $<TARGET_FILE:onelook>)
set_tests_properties(cli_field_cases PROPERTIES TIMEOUT 900)

# The example programs, built as a user would: against the header and the shared library alone.
foreach(example train val predict)
  add_executable(example_${example} ${CMAKE_SOURCE_DIR}/examples/${example}.c)
  target_include_directories(example_${example} PRIVATE ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(example_${example} PRIVATE onelook onelook_warnings)
  set_target_properties(example_${example} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
endforeach()
add_test(NAME cli_examples COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/examples.sh $<TARGET_FILE:yolo> ${CMAKE_BINARY_DIR}/examples
  ${CMAKE_SOURCE_DIR}/examples)
set_tests_properties(cli_examples PROPERTIES TIMEOUT 900)

# ONELOOK_PYTHON names another interpreter with numpy.
add_test(NAME python_layer COMMAND ${CMAKE_SOURCE_DIR}/tests/python/run.sh ${CMAKE_SOURCE_DIR}/tests/python/test_onelook.py)
set_tests_properties(python_layer PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900
  ENVIRONMENT "ONELOOK_LIBRARY=$<TARGET_FILE:onelook>;ONELOOK_DOUBLES=${CMAKE_BINARY_DIR}/tests/doubles;PYTHONPATH=${CMAKE_SOURCE_DIR}/python;PYTHONDONTWRITEBYTECODE=1")
if(NOT ONELOOK_SANITIZE)
  add_test(NAME cli_dist COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/dist.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  set_tests_properties(cli_dist PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
endif()
add_test(NAME cli_interrupt COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/interrupt.sh $<TARGET_FILE:yolo>)
set_tests_properties(cli_interrupt PROPERTIES TIMEOUT 900)
add_test(NAME cli_terminal COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/terminal.sh $<TARGET_FILE:yolo>)
set_tests_properties(cli_terminal PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
