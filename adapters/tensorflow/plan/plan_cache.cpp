// SPDX-License-Identifier: Apache-2.0
#include "plan_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "spillway/base/name_hash.hpp"

namespace spillway::tf {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

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
                           .due = row.at(2).get<std::uint64_t>()});
    }
  } catch (const std::exception&) {
    return {};
  }
  return decisions;
}

void PlanCache::write(std::uint64_t signature, std::uint64_t first_hole,
                      std::span<const HoleDecision> decisions) const {
  if (directory_.empty()) return;
  Json holes = Json::array();
  for (const HoleDecision& decision : decisions) {
    holes.push_back({decision.hole - first_hole, decision.leaves, decision.due});
  }
  const std::string path = path_of(signature);
  const std::string partial = fmt::format("{}.{}", path, ::getpid());
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  {
    std::ofstream file(partial);
    file << Json{{"version", kVersion}, {"holes", std::move(holes)}}.dump() << '\n';
    file.flush();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(partial, path, error);
  if (error) std::filesystem::remove(partial, error);
}

}  // namespace spillway::tf
