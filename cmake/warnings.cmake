# Warnings are errors in our own code; dependencies are system headers and stay silent.
add_library(onelook_warnings INTERFACE)
target_compile_options(onelook_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Werror -fno-math-errno)
if(ONELOOK_SANITIZE)
  add_compile_options(-fsanitize=${ONELOOK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
  add_link_options(-fsanitize=${ONELOOK_SANITIZE})
endif()
