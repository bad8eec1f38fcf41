# SPDX-License-Identifier: Apache-2.0
# cmake -D LIST=files.txt -D OUTPUT=id.inc -P OnrtSourceId.cmake: a C string, the first digits of a
# digest over the files' contents in the order of the list.
file(STRINGS ${LIST} files)
set(all "")
foreach(name IN LISTS files)
  file(SHA256 ${name} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 12 digest)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "\"${digest}\"\n" @ONLY)
