# The ONNX schema becomes C at build time. The generated code is compiled without our warnings; headers of ours do not include it.
find_program(PROTOC_C protoc-c REQUIRED)
set(onnx_generated ${CMAKE_BINARY_DIR}/onnx)
file(MAKE_DIRECTORY ${onnx_generated})
add_custom_command(OUTPUT ${onnx_generated}/onnx.pb-c.c ${onnx_generated}/onnx.pb-c.h
  COMMAND ${PROTOC_C} --proto_path=${CMAKE_SOURCE_DIR}/third_party/onnx --c_out=${onnx_generated} onnx.proto
  DEPENDS ${CMAKE_SOURCE_DIR}/third_party/onnx/onnx.proto)
target_sources(onelook_core PRIVATE ${onnx_generated}/onnx.pb-c.c ${onnx_generated}/onnx.pb-c.h)
set_source_files_properties(${onnx_generated}/onnx.pb-c.c PROPERTIES COMPILE_OPTIONS "-w")
target_include_directories(onelook_core SYSTEM PRIVATE ${onnx_generated})
