// SPDX-License-Identifier: Apache-2.0
// Any bytes are a valid machine or a UserError; a machine is written and read back unchanged.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "spillway/base/error.hpp"
#include "spillway/machine/machine_io.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spillway::Machine machine;
  try {
    machine = spillway::parse_machine({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const spillway::UserError&) {
    return 0;
  }
  if (spillway::validate(machine)) __builtin_trap();
  if (spillway::parse_machine(spillway::format_machine(machine), "again") != machine) {
    __builtin_trap();
  }
  return 0;
}
