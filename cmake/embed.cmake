# Text files that travel inside the library: each FILE in src/<room>/embedded/ becomes `const char embedded_<name>[]`
# (NUL-terminated) in a generated C file, <name> being the file name with every non-alphanumeric character as '_'.
file(GLOB embedded_files CONFIGURE_DEPENDS src/*/embedded/*)
foreach(file ${embedded_files})
  get_filename_component(stem ${file} NAME)
  string(REGEX REPLACE "[^A-Za-z0-9]" "_" name ${stem})
  set(out ${CMAKE_BINARY_DIR}/embedded/${name}.c)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DIN=${file} -DOUT=${out} -DNAME=embedded_${name} -P ${CMAKE_SOURCE_DIR}/cmake/embed_file.cmake
    DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/embed_file.cmake)
  target_sources(onelook_core PRIVATE ${out})
endforeach()
