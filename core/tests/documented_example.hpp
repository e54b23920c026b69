// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace spillway {

/// The text between the first fences below a heading of the page on formats.
inline std::string documented_example(std::string_view heading) {
  std::ifstream file(SPILLWAY_FORMATS_PAGE);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  constexpr std::string_view kFence = "```json\n";
  const auto fence = page.find(kFence, page.find(heading));
  if (fence == std::string::npos) {
    ADD_FAILURE() << "no example below \"" << heading << "\" in " << SPILLWAY_FORMATS_PAGE;
    return {};
  }
  const auto first = fence + kFence.size();
  return page.substr(first, page.find("```\n", first) - first);
}

}  // namespace spillway
