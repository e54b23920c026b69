// SPDX-License-Identifier: Apache-2.0
// Asks the Python on PATH for its packages without importing anything heavy: it reads package
// metadata only, so it answers in well under a second and cannot be broken by a
// broken torch. Starts one short process; gives up after ten seconds. Throws nothing of its own.
#pragma once

#include <string>
#include <string_view>

namespace spillway::tools {

struct PythonFacts {
  bool found = false;
  std::string problem;  ///< why it could not be asked, where it was found
  std::string executable;
  std::string version;
  std::string torch;         ///< empty: not installed
  std::string tensorflow;    ///< empty: not installed
  std::string spillway;      ///< empty: not installed
  bool has_adapter = false;  ///< the spillway package holds a library for that torch
  bool has_plugin = false;   ///< the spillway package holds a library for that TensorFlow
};

/// `program` is looked up on PATH, e.g. "python3".
PythonFacts probe_python(const std::string& program);

/// From what the probe printed. `problem` is set where that is not the expected JSON.
PythonFacts parse_python_facts(std::string_view json);

/// True for the minors of torch that an adapter exists for, and of TensorFlow for which a plugin
/// can be built.
bool is_supported_torch(std::string_view version);
bool is_supported_tensorflow(std::string_view version);

inline constexpr std::string_view kSupportedTorch = "2.11 to 2.15";
inline constexpr std::string_view kSupportedTensorflow = "2.19 to 2.21";

}  // namespace spillway::tools
