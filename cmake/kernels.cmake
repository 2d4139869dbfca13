# Device code: src/kernels/*.gpu.c compiled ahead of time by clang for every target, packed into one compressed archive that is
# part of the library. Without a suitable clang the library is built all the same, with an empty archive.
set(ONELOOK_KERNEL_ARCHIVE "" CACHE FILEPATH "use this archive (build/kernels.bin of another build) instead of compiling device code")
set(ONELOOK_GPU_TARGETS "default" CACHE STRING "list of targets: ptx, sm_…, gfx…; 'default' is all; empty: no GPU code")
find_program(ONELOOK_DEVICE_CLANG NAMES clang-19 clang-20 clang-21 clang-22 DOC "clang with the NVPTX and AMDGPU back ends, 19 or later")
find_program(ONELOOK_DEVICE_LLD NAMES lld-19 lld-20 lld-21 lld-22 ld.lld-19 ld.lld)

# NVIDIA's assembler is optional: with it the build carries machine code too, and the driver has nothing to compile. OFF: not used.
find_program(ONELOOK_PTXAS ptxas HINTS /usr/local/cuda/bin DOC "NVIDIA's assembler (a CUDA toolkit or PyPI's nvidia-cuda-nvcc-cu12)")
if(NOT ONELOOK_PTXAS AND NOT ONELOOK_PTXAS STREQUAL "OFF")
  execute_process(COMMAND python3 -c "import glob, nvidia; print(*sorted(f for p in nvidia.__path__ for f in glob.glob(p + '/*/bin/ptxas'))[-1:], end='')"
    OUTPUT_VARIABLE ptxas_of_wheel ERROR_QUIET)
  if(ptxas_of_wheel)
    set_property(CACHE ONELOOK_PTXAS PROPERTY VALUE ${ptxas_of_wheel})
  endif()
endif()

set(targets ${ONELOOK_GPU_TARGETS})
if(targets STREQUAL "default")
  set(targets ptx gfx900 gfx906 gfx908 gfx90a gfx942 gfx1010 gfx1012 gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036
    gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1200 gfx1201)
  if(ONELOOK_DEVICE_CLANG AND NOT ONELOOK_KERNEL_ARCHIVE)
    execute_process(COMMAND ${ONELOOK_DEVICE_CLANG} -x hip --cuda-device-only --offload-arch=gfx950 -nogpulib -nogpuinc -fsyntax-only /dev/null
      RESULT_VARIABLE gfx950_unknown OUTPUT_QUIET ERROR_QUIET)
    if(gfx950_unknown)
      message(STATUS "GPU code: without gfx950, which ${ONELOOK_DEVICE_CLANG} does not know (clang 20 and later do)")
    else()
      list(APPEND targets gfx950)
    endif()
  endif()
  if(ONELOOK_PTXAS AND NOT ONELOOK_KERNEL_ARCHIVE)
    execute_process(COMMAND ${ONELOOK_PTXAS} --help OUTPUT_VARIABLE ptxas_help)
    foreach(arch sm_80 sm_86 sm_89 sm_90 sm_100 sm_120)
      if(ptxas_help MATCHES "'${arch}'")
        list(APPEND targets ${arch})
      endif()
    endforeach()
    message(STATUS "GPU code: machine code for NVIDIA's cards too, by ${ONELOOK_PTXAS}")
  endif()
endif()
set(kernel_archive ${CMAKE_BINARY_DIR}/kernels.bin)
add_executable(pack_kernels ${CMAKE_SOURCE_DIR}/tools/pack_kernels.c)
target_link_libraries(pack_kernels PRIVATE PkgConfig::ONELOOK_ZSTD onelook_warnings)
set_target_properties(pack_kernels PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)

if(ONELOOK_KERNEL_ARCHIVE)
  message(STATUS "GPU code: taken from ${ONELOOK_KERNEL_ARCHIVE}")
  add_custom_command(OUTPUT ${kernel_archive} COMMAND ${CMAKE_COMMAND} -E copy ${ONELOOK_KERNEL_ARCHIVE} ${kernel_archive}
    DEPENDS ${ONELOOK_KERNEL_ARCHIVE})
else()
  if(NOT ONELOOK_DEVICE_CLANG OR NOT ONELOOK_DEVICE_LLD)
    message(STATUS "GPU code: left out, because clang-19 and lld-19 were not found (apt-get install clang-19 lld-19); the CPU side is complete")
    set(targets "")
  endif()
  file(GLOB kernel_sources CONFIGURE_DEPENDS src/kernels/*.gpu.c)
  file(GLOB kernel_headers CONFIGURE_DEPENDS src/kernels/*.h)
  set(device_flags -O3 -std=c++17 -Wall -Wextra -Werror -I${CMAKE_SOURCE_DIR}/src/kernels)
  set(objects "")
  foreach(target ${targets})
    foreach(source ${kernel_sources})
      get_filename_component(module ${source} NAME)
      string(REPLACE ".gpu.c" "" module ${module})
      set(object ${CMAKE_BINARY_DIR}/kernels/${target}/${module})
      list(APPEND objects ${object})
      if(target MATCHES "^sm_") # from the PTX
        set(ptx ${CMAKE_BINARY_DIR}/kernels/ptx/${module})
        add_custom_command(OUTPUT ${object} COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/kernels/${target}
          COMMAND ${ONELOOK_PTXAS} -arch=${target} ${ptx} -o ${object} DEPENDS ${ptx} COMMENT "device code ${module} for ${target}")
        continue()
      endif()
      # The host compiler's flags must not reach the device compiler, nor its installed toolkits: hence the bare command line.
      # CUDA's default contraction disregards `#pragma clang fp contract(off)`, and without .rn the driver's compiler fuses too.
      if(target STREQUAL "ptx")
        set(command ${ONELOOK_DEVICE_CLANG} -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib
          --cuda-path=/nonexistent --cuda-feature=+ptx71 -ffp-contract=fast-honor-pragmas ${device_flags} -S)
      else()
        set(command ${ONELOOK_DEVICE_CLANG} -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch=${target} -nogpulib -nogpuinc
          -munsafe-fp-atomics ${device_flags})
      endif()
      add_custom_command(OUTPUT ${object} COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/kernels/${target}
        COMMAND ${command} ${source} -o ${object} DEPENDS ${source} ${kernel_headers} COMMENT "device code ${module} for ${target}")
    endforeach()
  endforeach()
  add_custom_command(OUTPUT ${kernel_archive} COMMAND pack_kernels ${kernel_archive} ${CMAKE_BINARY_DIR}/kernels ${objects}
    DEPENDS pack_kernels ${objects} COMMENT "packing device code")
endif()
set(kernel_assembly ${CMAKE_BINARY_DIR}/kernels.S)
file(WRITE ${kernel_assembly} ".section .rodata\n.balign 16\n.globl gpu_kernel_archive\n.hidden gpu_kernel_archive\ngpu_kernel_archive:\n.incbin \"${kernel_archive}\"\n.globl gpu_kernel_archive_end\n.hidden gpu_kernel_archive_end\ngpu_kernel_archive_end:\n.byte 0\n.section .note.GNU-stack,\"\",%progbits\n")
set_source_files_properties(${kernel_assembly} PROPERTIES OBJECT_DEPENDS ${kernel_archive})
target_sources(onelook_core PRIVATE ${kernel_assembly})
