// SPDX-License-Identifier: Apache-2.0
#include "plan_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "spillway/base/name_hash.hpp"

namespace spillway::tf {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 2;

// 0, or the errno with which the file could not be written.
int write_error(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path);
  file << text << '\n';
  file.flush();
  if (file) return 0;
  return errno == 0 ? EIO : errno;
}

}  // namespace

PlanCache::PlanCache(std::string directory, std::string_view depends_on)
    : directory_(std::move(directory)), depends_on_(hash_of_name(depends_on)) {}

std::string PlanCache::path_of(std::uint64_t signature) const {
  return fmt::format("{}/tensorflow-{:016x}-{:016x}.json", directory_, signature, depends_on_);
}

std::vector<HoleDecision> PlanCache::read(std::uint64_t signature, std::uint64_t first_hole,
                                          std::uint64_t holes) const {
  if (directory_.empty()) return {};
  std::vector<HoleDecision> decisions;
  try {
    std::ifstream file(path_of(signature));
    if (!file) return {};
    const Json plan = Json::parse(file);
    if (plan.at("version") != kVersion) return {};
    for (const Json& row : plan.at("holes")) {
      const auto hole = row.at(0).get<std::uint64_t>();
      if (hole >= holes) return {};
      decisions.push_back({.hole = first_hole + hole,
                           .leaves = row.at(1).get<bool>(),
                           .due = row.at(2).get<std::uint64_t>(),
                           .recomputed = row.at(3).get<bool>()});
    }
  } catch (const std::exception&) {
    return {};
  }
  return decisions;
}

std::string PlanCache::write(std::uint64_t signature, std::uint64_t first_hole,
                             std::span<const HoleDecision> decisions) const {
  if (directory_.empty()) return {};
  Json holes = Json::array();
  for (const HoleDecision& decision : decisions) {
    holes.push_back(
        {decision.hole - first_hole, decision.leaves, decision.due, decision.recomputed});
  }
  const std::string path = path_of(signature);
  const std::string partial = fmt::format("{}.{}", path, ::getpid());
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (!error) {
    const std::string text = Json{{"version", kVersion}, {"holes", std::move(holes)}}.dump();
    error.assign(write_error(partial, text), std::generic_category());
  }
  if (!error) std::filesystem::rename(partial, path, error);
  if (!error) return {};
  std::error_code nothing_there;
  std::filesystem::remove(partial, nothing_there);
  return fmt::format("{}: {}", path, error.message());
}

}  // namespace spillway::tf
