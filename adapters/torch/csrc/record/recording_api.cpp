// SPDX-License-Identifier: Apache-2.0
// The C interface to recording, for Python through ctypes. Texts are returned as in
// c_api.cpp. A recorded step is a Trace on the heap, owned by the caller until spillway_step_free.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "record/recording.hpp"
#include "session/engines.hpp"
#include "spillway/base/error.hpp"
#include "spillway/machine/machine_io.hpp"
#include "spillway/machine/roofline.hpp"
#include "spillway/trace/trace_io.hpp"

#define SPILLWAY_API extern "C" __attribute__((visibility("default")))

namespace {

using spillway::Trace;
using spillway::torch::OpOrigins;
using spillway::torch::Recording;

char* copy(const std::string& text) { return ::strdup(text.c_str()); }

template <class Function>
char* report(Function&& function) noexcept {
  try {
    function();
    return nullptr;
  } catch (const spillway::UserError& error) {
    return copy(std::string("user: ") + error.what());
  } catch (const std::exception& error) {
    return copy(std::string("internal: ") + error.what());
  }
}

void time_ops(Trace& trace, const spillway::Machine& machine) {
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const auto bytes = trace.ops.bytes_touched[i].value_or(spillway::Bytes{}).count;
    trace.ops.duration_ns[i] = spillway::roofline_duration(
        machine, trace.ops.arithmetic[i], trace.ops.flop[i], static_cast<double>(bytes));
  }
  trace.timed = true;
}

nlohmann::json facts_of(const Trace& trace) {
  std::uint64_t flop = 0;
  std::int64_t duration = 0;
  std::size_t recomputable = 0;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    flop += trace.ops.flop[i].value_or(0);
    duration += trace.ops.duration_ns[i];
    recomputable += trace.ops.recomputable[i];
  }
  nlohmann::json by_role = nlohmann::json::object();
  for (std::size_t i = 0; i < trace.storages.size(); ++i) {
    auto& entry = by_role[std::string(spillway::to_string(trace.storages.role[i]))];
    entry = entry.is_null() ? trace.storages.bytes[i].count
                            : entry.get<std::uint64_t>() + trace.storages.bytes[i].count;
  }
  return {{"ops", trace.ops.size()},
          {"recomputable_ops", recomputable},
          {"storages", trace.storages.size()},
          {"peak_bytes", spillway::peak_bytes(trace).count},
          {"flop", flop},
          {"duration_ns", duration},
          {"bytes_by_role", by_role}};
}

}  // namespace

/// Sees every op of every thread from now on. `where` may be null.
SPILLWAY_API char* spillway_record_begin(std::uint32_t (*where)(), int matmul_rounds,
                                         int convolution_rounds, int with_data) {
  return report([&] {
    Recording::get().begin(
        {.where = where,
         .rounding = {.matmul = matmul_rounds != 0, .convolution = convolution_rounds != 0},
         .with_data = with_data != 0});
  });
}

/// Begins the trace that SPILLWAY_TRACE asks for, of a program that runs with memory: `where`
/// numbers its lines. Modules, lines and storages may be named from now on.
SPILLWAY_API void spillway_trace_begin(std::uint32_t (*where)()) { OpOrigins::get().begin(where); }

SPILLWAY_API void spillway_record_step() { Recording::get().begin_step(); }

SPILLWAY_API void spillway_record_end() { Recording::get().end(); }

SPILLWAY_API void spillway_record_module(const char* name) { OpOrigins::get().enter_module(name); }

SPILLWAY_API void spillway_record_line(std::uint32_t number, const char* text) {
  OpOrigins::get().name_line(number, text);
}

SPILLWAY_API void spillway_record_storage(void* storage_impl, const char* role, const char* name) {
  const auto known = spillway::parse_storage_role(role).value_or(spillway::StorageRole::kUnknown);
  auto& storage = *static_cast<c10::StorageImpl*>(storage_impl);
  if (spillway::torch::Engines::made() == nullptr || !spillway::torch::main_engine().tracing()) {
    Recording::get().describe(storage, known, name);
  } else if (const auto found = spillway::torch::Engines::find(storage);
             found && found.engine().tracing()) {
    found.engine().describe(*found.record, known, name);
  }
}

SPILLWAY_API char* spillway_record_last_op() { return copy(Recording::get().last_op()); }

/// JSON list of the ops that were recorded as their parts.
SPILLWAY_API char* spillway_record_decomposed() {
  return copy(nlohmann::json(Recording::get().decomposed()).dump());
}

/// The step since spillway_record_step; timed by the roofline of the machine file, if one is given.
SPILLWAY_API char* spillway_record_take(const char* framework, const char* machine_path,
                                        void** step) {
  return report([&] {
    auto trace = std::make_unique<Trace>(Recording::get().trace());
    trace->framework = framework;
    if (machine_path != nullptr) {
      const spillway::Machine machine = spillway::read_machine(machine_path);
      trace->machine = machine.name;
      time_ops(*trace, machine);
    }
    if (const auto problem = spillway::validate(*trace)) throw spillway::InternalError(*problem);
    *step = trace.release();
  });
}

SPILLWAY_API char* spillway_step_write(void* step, const char* path) {
  return report([&] { spillway::write_trace(*static_cast<Trace*>(step), path); });
}

SPILLWAY_API char* spillway_step_text(void* step) {
  return copy(spillway::format_trace(*static_cast<Trace*>(step)));
}

SPILLWAY_API char* spillway_step_facts(void* step) {
  return copy(facts_of(*static_cast<Trace*>(step)).dump());
}

SPILLWAY_API void spillway_step_free(void* step) { delete static_cast<Trace*>(step); }
