# The test of exports reads the files with the generated schema.
target_include_directories(test_onnx_export SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/onnx)
# Exports of a small model in other run times; needs a Python with onnxruntime.
foreach(check ties runtimes)
  add_test(NAME onnx_${check} COMMAND ${CMAKE_SOURCE_DIR}/tests/reference/with_runtime.sh check_${check}.py $<TARGET_FILE:yolo>
    ${CMAKE_SOURCE_DIR}/tests/fixtures/tiny.safetensors)
  set_tests_properties(onnx_${check} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endforeach()
