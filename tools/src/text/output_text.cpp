// SPDX-License-Identifier: Apache-2.0
#include "text/output_text.hpp"

#include <algorithm>

namespace spillway::tools {

std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string printable(std::string_view name, std::size_t width) {
  std::string text(name);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() <= width) return text;
  constexpr std::string_view kDots = "...";
  return text.substr(0, width - std::min(width, kDots.size())) + std::string(kDots);
}

}  // namespace spillway::tools
