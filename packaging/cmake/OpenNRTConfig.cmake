# SPDX-License-Identifier: Apache-2.0
# find_package(OpenNRT) -> imported targets OpenNRT::nrt and OpenNRT::nrtcc.
get_filename_component(_opennrt_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
foreach(_name IN ITEMS nrt nrtcc)
  if(NOT TARGET OpenNRT::${_name})
    add_library(OpenNRT::${_name} SHARED IMPORTED)
    set_target_properties(OpenNRT::${_name} PROPERTIES
      IMPORTED_LOCATION "${_opennrt_prefix}/lib/lib${_name}.so.1"
      INTERFACE_INCLUDE_DIRECTORIES "${_opennrt_prefix}/include")
  endif()
endforeach()
set(OpenNRT_FOUND TRUE)
