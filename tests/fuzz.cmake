# Every fuzz/fuzz_<target>.c replays fuzz/corpus/<target> as a test. To fuzz (clang):
#   cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DONELOOK_FUZZ=ON -DONELOOK_SANITIZE=address,undefined,fuzzer-no-link
#   ninja -C build-fuzz && build-fuzz/tests/fuzz_<target> -max_len=65536 fuzz/corpus/<target>
option(ONELOOK_FUZZ "build libFuzzer targets (clang)" OFF)
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REPLACE "fuzz_" "" target ${name})
  add_executable(replay_${target} ${source} ${CMAKE_SOURCE_DIR}/fuzz/replay.c)
  target_link_libraries(replay_${target} PRIVATE onelook_core onelook_warnings)
  add_test(NAME replay_${target} COMMAND replay_${target} ${CMAKE_SOURCE_DIR}/fuzz/corpus/${target})
  if(ONELOOK_FUZZ)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE onelook_core onelook_warnings)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endif()
endforeach()
