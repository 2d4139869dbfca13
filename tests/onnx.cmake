# The test of exports reads the files with the generated schema.
target_include_directories(test_onnx_export SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/onnx)
