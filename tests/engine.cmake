# The op table and the gradients again on the narrower instruction sets, whatever machine this is.
foreach(isa AVX2 SSE41)
  foreach(name test_ops test_gradients)
    string(TOLOWER ${name}_${isa} variant)
    add_test(NAME ${variant} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    set_tests_properties(${variant} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 ENVIRONMENT DNNL_MAX_CPU_ISA=${isa})
  endforeach()
endforeach()
