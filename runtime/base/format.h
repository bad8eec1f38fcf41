// SPDX-License-Identifier: Apache-2.0
// format("{} of {}", a, b): fmt behind one translation unit, so that the library exports no fmt
// symbol and other files pay only for fmt/core.h.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace onrt {

std::string vformat(fmt::string_view text, fmt::format_args arguments);

// Text is checked against the argument types at compile time.
template <class... Arguments>
std::string format(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return ::onrt::vformat(text, fmt::make_format_args(arguments...));
}

// 1536 -> "1.5 KiB". For messages; exact sizes go beside it where they matter.
std::string format_bytes(unsigned long long bytes);

}  // namespace onrt
