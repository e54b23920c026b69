// SPDX-License-Identifier: Apache-2.0
// Any bytes are a plan or a UserError; a plan is written and read back unchanged, and the validator
// judges it, whatever its ids are.
#include <cstddef>
#include <cstdint>
#include <string>

#include "spillway/base/error.hpp"
#include "spillway/plan/plan_io.hpp"
#include "spillway/plan/validator.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const spillway::Trace trace = [] {
    spillway::Trace step;
    const auto weight = step.add({.bytes = {8}, .persistent = true, .name = "w"});
    const auto hidden = step.add({.bytes = {4}, .name = "h"});
    step.add({.recomputable = true, .reads = {weight}, .writes = {hidden}, .creates = {hidden}});
    step.add({.reads = {weight}});
    step.add({.reads = {hidden}, .frees = {hidden}});
    return step;
  }();
  spillway::Plan plan;
  try {
    plan = spillway::parse_plan(std::string(reinterpret_cast<const char*>(data), size), "input");
  } catch (const spillway::UserError&) {
    return 0;
  }
  if (spillway::parse_plan(spillway::format_plan(plan), "again") != plan) __builtin_trap();
  plan.structure = spillway::structure_hash(trace);
  (void)spillway::validate(plan, trace, {{spillway::Bytes{16}, spillway::Bytes{8}, {}}});
  return 0;
}
