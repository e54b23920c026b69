// SPDX-License-Identifier: Apache-2.0
// Text as it lies on disk: as it is, or compressed with zstd. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "spillway/base/bytes.hpp"

namespace spillway {

/// True for names that ask for compression.
bool ends_in_zst(std::string_view path);

std::string compressed(std::string_view text);

/// The text, if `contents` is compressed; nothing else is changed. Throws UserError, without naming
/// the file, for damaged data and for more than `most`.
std::string decompressed(std::string contents, Bytes most);

}  // namespace spillway
