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
