// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/error.hpp"

#include <fmt/format.h>

#include <string_view>

namespace spillway {

void throw_internal_error(const char* file, int line, const char* condition,
                          const std::string& detail) {
  const std::string_view path(file);
  // The build machine's directories say nothing to the reader.
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  throw InternalError(fmt::format("internal error: {}{}({}) at {}:{}", detail,
                                  detail.empty() ? "" : " ", condition, name, line));
}

}  // namespace spillway
