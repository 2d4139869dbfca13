# The order of the rooms and self-contained headers.
add_test(NAME include_order COMMAND ${CMAKE_SOURCE_DIR}/tools/check_includes.sh)
# The drivers' loader is written for Windows too; where the cross compiler is installed it is compiled.
find_program(ONELOOK_MINGW x86_64-w64-mingw32-gcc)
if(ONELOOK_MINGW)
  file(GLOB driver_sources ${CMAKE_SOURCE_DIR}/src/device/gpu/drivers/*.c)
  add_test(NAME windows_drivers COMMAND ${ONELOOK_MINGW} -std=c17 -Wall -Wextra -Wpedantic -Wconversion -Werror -fsyntax-only
    -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include ${driver_sources})
endif()
