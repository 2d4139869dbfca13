# The program from outside.
add_test(NAME cli_docs COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/docs.sh $<TARGET_FILE:yolo> ${CMAKE_SOURCE_DIR}/docs/cli.md)
