// SPDX-License-Identifier: Apache-2.0
#include "spillway/machine/machine_io.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "../base/json_object.hpp"
#include "../base/text_file.hpp"
#include "spillway/base/error.hpp"

namespace spillway {
namespace {

using nlohmann::ordered_json;

constexpr const char* kVersionKey = "spillway_machine";
constexpr Bytes kMostText = kMiB;

template <typename Value>
ordered_json figure(std::string_view key, const Value& value, const std::string& source) {
  return ordered_json{{key, value}, {"source", source}};
}

ordered_json device_json(const DeviceFacts& device) {
  ordered_json rates = ordered_json::object();
  for (std::size_t type = 0; type < kArithmeticCount; ++type) {
    const Sourced<double>& rate = device.flop_per_second[type];
    if (rate.value == 0) continue;
    rates[std::string(to_string(static_cast<Arithmetic>(type)))] =
        figure("flop_per_second", rate.value, rate.source);
  }
  return ordered_json{
      {"name", device.name},
      {"capacity", figure("bytes", device.capacity.value.count, device.capacity.source)},
      {"memory", figure("bytes_per_second", device.memory_bytes_per_second.value,
                        device.memory_bytes_per_second.source)},
      {"arithmetic", std::move(rates)},
      {"launch", figure("ns", device.launch_ns.value, device.launch_ns.source)}};
}

Sourced<Bytes> read_bytes(const JsonObject& object, const char* key) {
  const JsonObject figure = object.object(key, {"bytes", "source"});
  return {Bytes{figure.whole("bytes")}, figure.text("source")};
}

Sourced<Bytes> read_bytes_if_any(const JsonObject& object, const char* key) {
  return object.has(key) ? read_bytes(object, key) : Sourced<Bytes>{};
}

DeviceFacts read_device(const JsonObject& device) {
  DeviceFacts facts;
  facts.name = device.text("name");
  facts.capacity = read_bytes(device, "capacity");
  const JsonObject memory = device.object("memory", {"bytes_per_second", "source"});
  facts.memory_bytes_per_second = {memory.real("bytes_per_second"), memory.text("source")};
  const JsonObject arithmetic = device.object("arithmetic");
  for (const std::string& name : arithmetic.keys()) {
    const auto type = parse_arithmetic(name);
    if (!type) arithmetic.fail(name, "is no type of arithmetic");
    const JsonObject rate = arithmetic.object(name.c_str(), {"flop_per_second", "source"});
    facts.flop_per_second[static_cast<std::size_t>(*type)] = {rate.real("flop_per_second"),
                                                              rate.text("source")};
  }
  if (device.has("launch")) {
    const JsonObject launch = device.object("launch", {"ns", "source"});
    facts.launch_ns = {static_cast<TimeNs>(launch.whole("ns")), launch.text("source")};
  }
  return facts;
}

// The table by op and by bytes touched, which are the keys of its objects.
Sourced<std::vector<KernelWorkspace>> read_workspace(const JsonObject& table) {
  Sourced<std::vector<KernelWorkspace>> workspace{{}, table.text("source")};
  const JsonObject ops = table.object("ops");
  for (const std::string& op : ops.keys()) {
    const JsonObject sizes = ops.object(op.c_str());
    for (const std::string& size : sizes.keys()) {
      std::uint64_t touched = 0;
      const char* const end = size.data() + size.size();
      if (const auto read = std::from_chars(size.data(), end, touched);
          read.ec != std::errc{} || read.ptr != end) {
        sizes.fail(size, "is no number of bytes");
      }
      workspace.value.push_back({op, Bytes{touched}, Bytes{sizes.whole(size.c_str())}});
    }
  }
  const auto key = [](const KernelWorkspace& each) {
    return std::tuple(std::string_view(each.op), each.touched);
  };
  std::ranges::sort(workspace.value, {}, key);
  const auto twice = std::ranges::adjacent_find(workspace.value, {}, key);
  if (twice != workspace.value.end()) {
    ops.fail(twice->op, fmt::format("has {} bytes twice", twice->touched.count));
  }
  return workspace;
}

ordered_json workspace_json(const Sourced<std::vector<KernelWorkspace>>& workspace) {
  ordered_json ops = ordered_json::object();
  for (const KernelWorkspace& each : workspace.value) {
    ops[each.op][fmt::to_string(each.touched.count)] = each.workspace.count;
  }
  return ordered_json{{"source", workspace.source}, {"ops", std::move(ops)}};
}

Machine read_members(const JsonObject& document) {
  Machine machine;
  machine.name = document.text("name");
  machine.device = read_device(
      document.object("device", {"name", "capacity", "memory", "arithmetic", "launch"}));
  machine.host_capacity = read_bytes_if_any(document, "host");
  machine.page_locked_capacity = read_bytes_if_any(document, "page_locked");
  machine.disk_capacity = read_bytes_if_any(document, "disk");
  const JsonObject links = document.object("links");
  for (const std::string& name : links.keys()) {
    const auto kind = std::find_if(kLinks.begin(), kLinks.end(),
                                   [&](LinkKind link) { return to_string(link) == name; });
    if (kind == kLinks.end()) links.fail(name, "is no link");
    const JsonObject link =
        links.object(name.c_str(), {"bytes_per_second", "latency_ns", "source"});
    machine.links[index_of(*kind)] =
        Link{link.real("bytes_per_second"), static_cast<TimeNs>(link.whole_or("latency_ns", 0)),
             link.text("source")};
  }
  if (document.has("workspace")) {
    machine.workspace = read_workspace(document.object("workspace", {"source", "ops"}));
  }
  return machine;
}

}  // namespace

std::string format_machine(const Machine& machine) {
  ordered_json links = ordered_json::object();
  for (const LinkKind kind : kLinks) {
    const auto& link = machine.link(kind);
    if (!link) continue;
    links[std::string(to_string(kind))] = ordered_json{{"bytes_per_second", link->bytes_per_second},
                                                       {"latency_ns", link->latency_ns},
                                                       {"source", link->source}};
  }
  ordered_json document{{kVersionKey, kMachineVersion},
                        {"name", machine.name},
                        {"device", device_json(machine.device)}};
  const auto add = [&document](const char* key, const Sourced<Bytes>& capacity) {
    if (capacity.value == Bytes{0} && capacity.source.empty()) return;
    document[key] = figure("bytes", capacity.value.count, capacity.source);
  };
  add("host", machine.host_capacity);
  add("page_locked", machine.page_locked_capacity);
  add("disk", machine.disk_capacity);
  document["links"] = std::move(links);
  if (!machine.workspace.value.empty()) document["workspace"] = workspace_json(machine.workspace);
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Machine parse_machine(std::string_view text, std::string_view what) {
  return read_document(text, fmt::format("machine {}", what), [](const JsonObject& document) {
    document.allow(
        {kVersionKey, "name", "device", "host", "page_locked", "disk", "links", "workspace"});
    document.require_version(kVersionKey, kMachineVersion);
    Machine machine = read_members(document);
    if (const auto problem = validate(machine)) throw UserError(*problem);
    return machine;
  });
}

Machine read_machine(const std::string& path) {
  return parse_machine(read_file(path, "machine", kMostText), path);
}

void write_machine(const Machine& machine, const std::string& path) {
  write_file(path, "machine", format_machine(machine));
}

}  // namespace spillway
