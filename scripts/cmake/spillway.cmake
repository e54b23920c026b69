# SPDX-License-Identifier: Apache-2.0
# How a layer, a test and a benchmark are declared here.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

find_program(SPILLWAY_CCACHE ccache)
if(SPILLWAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SPILLWAY_CCACHE})
endif()

# Lines are what a stack trace needs. The rest of the debug information takes a quarter of the time
# that compiling takes, and most of an object file; the preset `debug` has it.
add_compile_options($<$<CONFIG:RelWithDebInfo>:-g1>)

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

# Warnings are errors where they are known: with Debian 12's g++ 12.2 and clang 14. Other compilers
# find other things (g++ 13 of Ubuntu 24.04 takes a use in spdlog's own header for out of bounds),
# and who builds with them gets a program all the same.
set(spillway_known_warnings FALSE)
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.3)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15))
  set(spillway_known_warnings TRUE)
endif()
option(SPILLWAY_WARNINGS_ARE_ERRORS "Stop the build at a warning" ${spillway_known_warnings})
add_library(spillway_warnings INTERFACE)
target_compile_options(spillway_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion
                       -Wsign-conversion -Wnon-virtual-dtor
                       $<$<BOOL:${SPILLWAY_WARNINGS_ARE_ERRORS}>:-Werror>)
if(SPILLWAY_SANITIZE)
  add_compile_options(-fsanitize=${SPILLWAY_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SPILLWAY_SANITIZE})
endif()

# spillway_add_layer(NAME core SOURCES a.cpp b.cpp LINKS other PUBLIC_LINKS lib)
function(spillway_add_layer)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;LINKS;PUBLIC_LINKS" ${ARGN})
  add_library(spillway_${ARG_NAME} STATIC ${ARG_SOURCES})
  target_include_directories(spillway_${ARG_NAME} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/include)
  target_link_libraries(spillway_${ARG_NAME} PUBLIC ${ARG_PUBLIC_LINKS}
                        PRIVATE spillway_warnings ${ARG_LINKS})
endfunction()

# spillway_add_test(NAME bytes SOURCES tests/bytes_test.cpp LINKS spillway_core)
function(spillway_add_test)
  if(NOT SPILLWAY_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;LINKS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${ARG_NAME}_test ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME}_test PRIVATE spillway_warnings ${ARG_LINKS} GTest::gmock_main)
  # Compiling a test takes longer than running it: this takes half of the time. What tests call is
  # compiled as it ships.
  target_compile_options(${ARG_NAME}_test PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME}_test)
  if(SPILLWAY_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")  # what sanitizers cost
  endif()
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
