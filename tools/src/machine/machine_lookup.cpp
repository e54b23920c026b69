// SPDX-License-Identifier: Apache-2.0
#include "machine/machine_lookup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "spillway/base/error.hpp"
#include "spillway/base/nearest.hpp"
#include "spillway/machine/machine_io.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;

/// In the Python package below the prefix of the installed command, whichever Python that is for;
/// in share/ where there is no package; else in the source tree that this was built from.
fs::path machines_folder() {
  if (const char* given = std::getenv("SPILLWAY_MACHINES")) return given;
  std::error_code error;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  for (const auto& python : fs::directory_iterator(prefix / "lib", error)) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      fs::path machines = python.path() / packages / "spillway/machines";
      if (fs::is_directory(machines, error)) return machines;
    }
  }
  const fs::path shared = prefix / "share/spillway/machines";
  return fs::is_directory(shared, error) ? shared : fs::path(SPILLWAY_SOURCE_MACHINES);
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(machines_folder(), error)) {
    if (file.path().extension() == ".json") names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

bool is_machine_file(std::string_view name) {
  constexpr std::string_view kEnding = ".json";
  return name.find('/') != std::string_view::npos ||
         (name.size() >= kEnding.size() && name.substr(name.size() - kEnding.size()) == kEnding);
}

Machine find_machine(const std::string& name) {
  if (is_machine_file(name)) return read_machine(name);
  const std::vector<std::string> names = machine_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return read_machine((machines_folder() / (name + ".json")).string());
  }
  const std::vector<std::string_view> words(names.begin(), names.end());
  if (names.empty()) {
    throw UserError(fmt::format("There is no machine \"{}\": {} holds none. Name a file.", name,
                                machines_folder().string()));
  }
  throw UserError(fmt::format("There is no machine \"{}\".{} Known: {}. A file is given as a path.",
                              name, suggestion(name, words), fmt::join(names, ", ")));
}

std::string kept_name(const std::string& name) {
  return is_machine_file(name) ? fs::absolute(name).lexically_normal().string() : name;
}

std::vector<Machine> known_machines() {
  std::vector<Machine> machines;
  for (const std::string& name : machine_names()) machines.push_back(find_machine(name));
  return machines;
}

}  // namespace spillway::tools
