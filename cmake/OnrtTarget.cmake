# SPDX-License-Identifier: Apache-2.0
# onrt_library / onrt_tool / onrt_test: flags, labels and visibility in one place.

add_library(onrt_options INTERFACE)
target_include_directories(onrt_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                           ${PROJECT_BINARY_DIR}/generated)
target_compile_options(onrt_options INTERFACE
  -Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -Wno-missing-field-initializers
  # Results must not depend on the host's FMA contraction: docs/adr/0004-numerics.md.
  -ffp-contract=off)
if(ONRT_WERROR)
  target_compile_options(onrt_options INTERFACE -Werror)
endif()

# Groups for scripts: every library (tests/sanitize clang-tsa), every fuzz target (tests/fuzz/run)
# and every generated source (clang-tidy; folders that generate sources add to it).
add_custom_target(onrt_all_libraries)
add_custom_target(onrt_all_fuzzers)
add_custom_target(onrt_generated)

# onrt_library(NAME SOURCES a.cc b.cc [DEPS t1 t2] [PRIVATE_DEPS t3])
# A static, position-independent library with hidden symbols.
function(onrt_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                        C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${name} PUBLIC onrt_options ${A_DEPS} PRIVATE ${A_PRIVATE_DEPS})
  add_dependencies(onrt_all_libraries ${name})
endfunction()

# onrt_tool(NAME SOURCES main.cc [DEPS ...]): an executable that goes to bin/ of the stage.
function(onrt_tool name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE onrt_options ${A_DEPS})
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

# onrt_test(NAME SOURCES x_test.cc [DEPS ...] [LABELS unit] [TIMEOUT 60] [ARGS ...] [ENV a=b ...])
# A GoogleTest program registered with ctest as one test. Default label: unit.
function(onrt_test name)
  cmake_parse_arguments(A "" "TIMEOUT" "SOURCES;DEPS;LABELS;ARGS;ENV" ${ARGN})
  if(NOT ONRT_BUILD_TESTS)
    return()
  endif()
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE onrt_options ${A_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} ${A_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT}
                       ENVIRONMENT "OPENNRT_TEST=1;${A_ENV}")
endfunction()

# onrt_fuzz(NAME SOURCES x_fuzz.cc CORPUS dir [DEPS ...])
# LLVMFuzzerTestOneInput program. With preset `fuzz` it is a libFuzzer binary; elsewhere it is
# linked with a small driver that replays the corpus, and registered with ctest (label fuzz-smoke).
function(onrt_fuzz name)
  cmake_parse_arguments(A "" "CORPUS" "SOURCES;DEPS" ${ARGN})
  if(ONRT_FUZZ)
    add_executable(${name} ${A_SOURCES})
    target_link_libraries(${name} PRIVATE onrt_options ${A_DEPS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(onrt_all_fuzzers ${name})
    set_property(GLOBAL APPEND_STRING PROPERTY ONRT_FUZZ_TARGETS
                 "${name}|${A_CORPUS}|$<TARGET_FILE:${name}>\n")
  elseif(ONRT_BUILD_TESTS)
    add_executable(${name} ${A_SOURCES} ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    target_link_libraries(${name} PRIVATE onrt_options ${A_DEPS})
    add_test(NAME ${name} COMMAND ${name} ${A_CORPUS})
    set_tests_properties(${name} PROPERTIES LABELS fuzz-smoke TIMEOUT 120)
  endif()
endfunction()

# Writes fuzz-targets.txt: `name|corpus|binary` lines for tests/fuzz/run.
function(onrt_write_fuzz_list)
  get_property(rows GLOBAL PROPERTY ONRT_FUZZ_TARGETS)
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/fuzz-targets.txt CONTENT "${rows}")
endfunction()
