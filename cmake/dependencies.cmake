# Everything here is listed in packaging/apt-packages.txt.
find_package(PkgConfig REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(Threads REQUIRED)
find_package(dnnl REQUIRED)
pkg_check_modules(ONELOOK_LIBS REQUIRED IMPORTED_TARGET libzip zlib yaml-0.1 libcjson libprotobuf-c libjpeg spng libwebp libtiff-4 cairo)
add_library(onelook_dependencies INTERFACE)
target_link_libraries(onelook_dependencies INTERFACE PkgConfig::ONELOOK_LIBS DNNL::dnnl OpenMP::OpenMP_C Threads::Threads m ${CMAKE_DL_LIBS})
target_compile_definitions(onelook_dependencies INTERFACE _GNU_SOURCE)
