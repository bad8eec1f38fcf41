// SPDX-License-Identifier: Apache-2.0
#include "tools/common/table.h"

#include <algorithm>

#include "runtime/base/json.h"

namespace onrt::tools {
namespace {

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }

std::string rule(const std::vector<size_t>& widths) {
  std::string line = "+";
  for (const size_t width : widths) {
    line += std::string(width + 2, '-') + "+";
  }
  return line + "\n";
}

std::string left(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, text_width(text)), ' ');
}

std::string centred(const std::string& text, size_t width) {
  const size_t space = width - std::min(width, text_width(text));
  return std::string(space / 2, ' ') + text + std::string(space - space / 2, ' ');
}

}  // namespace

size_t text_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string printable(std::string_view text) {
  const bool clean = is_utf8(text);
  std::string out(text);
  for (char& c : out) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7F || (code >= 0x80 && !clean)) {
      c = '?';
    }
  }
  // U+0080..U+009F are control characters too; in UTF-8 they start with C2.
  for (size_t i = 0; clean && i + 1 < out.size(); ++i) {
    if (out[i] == '\xC2' && static_cast<unsigned char>(out[i + 1]) < 0xA0) {
      out.replace(i, 2, "?");
    }
  }
  return out;
}

std::string shortened(std::string_view text, size_t width) {
  if (text_width(text) <= width) {
    return std::string(text);
  }
  size_t end = 0;
  for (size_t characters = 0; end < text.size(); ++end) {
    if (starts_character(text[end]) && characters++ == width - 3) {
      break;
    }
  }
  return std::string(text.substr(0, end)) + "...";
}

std::vector<size_t> Table::widths() const {
  std::vector<size_t> widths(columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    for (const std::string& line : columns_[i]) {
      widths[i] = std::max(widths[i], text_width(line));
    }
    for (const auto& group : groups_) {
      for (const auto& row : group) {
        widths[i] = std::max(widths[i], text_width(row[i]));
      }
    }
  }
  return widths;
}

std::string Table::text(Rules rules) const {
  const std::vector<size_t> width = widths();
  std::string out = rule(width);
  size_t lines = 0;
  for (const auto& heading : columns_) {
    lines = std::max(lines, heading.size());
  }
  for (size_t line = 0; line < lines; ++line) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      out += "| " + centred(line < columns_[i].size() ? columns_[i][line] : "", width[i]) + " ";
    }
    out += "|\n";
  }
  out += rule(width);
  for (const auto& group : groups_) {
    for (const auto& row : group) {
      for (size_t i = 0; i < columns_.size(); ++i) {
        out += "| " + left(row[i], width[i]) + " ";
      }
      out += "|\n";
    }
    if (rules == Rules::kAfterEachGroup) {
      out += rule(width);
    }
  }
  if (rules == Rules::kOutside || groups_.empty()) {
    out += rule(width);
  }
  return out;
}

}  // namespace onrt::tools
