// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace spillway {

/// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours) to
/// `word`, if that distance is at most a third of the longer word, rounded up; else nothing.
std::optional<std::string_view> nearest_word(std::string_view word,
                                             std::span<const std::string_view> candidates);

/// ` Did you mean "lru"?`, to follow the sentence that refuses a word; empty where no candidate is
/// near.
/// `prefix` stands before the candidate in the text, and is no part of what is compared.
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates,
                       std::string_view prefix = "");

}  // namespace spillway
