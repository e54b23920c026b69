// SPDX-License-Identifier: Apache-2.0
#include "finished_step.hpp"

#include <set>
#include <vector>

#include "spillway/base/ids.hpp"

namespace spillway::tf {
namespace {

// Storages that are alive when the step begins: those that no op creates.
Bytes alive_before(const Trace& trace) {
  std::vector<bool> created(trace.storages.size());
  for (const StorageId id : trace.ops.creates.items) created[to_value(id)] = true;
  Bytes bytes{};
  for (std::size_t i = 0; i < created.size(); ++i) {
    if (!created[i]) bytes += trace.storages.bytes[i];
  }
  return bytes;
}

Bytes sum_of(const Trace& trace, std::span<const StorageId> ids) {
  Bytes bytes{};
  for (const StorageId id : ids) bytes += trace.storages.bytes[to_value(id)];
  return bytes;
}

std::string_view first_part(std::string_view scope) { return scope.substr(0, scope.find('/')); }

bool updates(std::string_view op) {
  return op.starts_with("Assign") || op.starts_with("ResourceApply") ||
         op.starts_with("ResourceSparseApply") || op.starts_with("ResourceScatter");
}

// The scopes (their first part) that update a storage, and the others that read it.
struct Users {
  std::string_view updater;
  std::set<std::string_view> readers;
};

std::vector<Users> find_users(const Trace& trace) {
  std::vector<Users> users(trace.storages.size());
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const OpIndex op{i};
    const std::string_view type = trace.ops.name[i];
    const std::string_view scope = first_part(trace.ops.module[i]);
    if (updates(type)) {
      for (const StorageId id : trace.ops.writes[op]) users[to_value(id)].updater = scope;
    } else if (type != "ReadVariableOp") {
      for (const StorageId id : trace.ops.reads[op]) users[to_value(id)].readers.insert(scope);
    }
  }
  return users;
}

}  // namespace

std::string_view name_in_function(std::string_view node) {
  constexpr std::string_view kCall = "PartitionedCall";
  // `StatefulPartitionedCall_3/` too.
  const std::size_t call = node.rfind(kCall);
  const std::size_t end = call == std::string_view::npos ? call : node.find('/', call);
  return end == std::string_view::npos ? node : node.substr(end + 1);
}

std::string scope_of(std::string_view node) {
  node = name_in_function(node);
  const std::size_t last = node.rfind('/');
  return last == std::string_view::npos ? std::string() : std::string(node.substr(0, last));
}

void measure_workspace(Trace& trace, std::span<const Bytes> peaks) {
  Bytes alive = alive_before(trace);
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const OpIndex op{i};
    alive += sum_of(trace, trace.ops.creates[op]);
    trace.ops.workspace[i] = saturating_sub(peaks[i], alive);
    alive -= sum_of(trace, trace.ops.frees[op]);
  }
}

void tell_roles(Trace& trace) {
  const std::vector<Users> users = find_users(trace);
  std::set<std::string_view> optimizers;
  const auto others_read = [&](std::size_t storage) {
    const Users& of = users[storage];
    return of.readers.size() > of.readers.count(of.updater);
  };
  for (std::size_t i = 0; i < users.size(); ++i) {
    if (trace.storages.persistent[i] != 0 && !users[i].updater.empty() && others_read(i)) {
      optimizers.insert(users[i].updater);
    }
  }
  std::vector<std::string_view> maker(users.size());
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    for (const StorageId id : trace.ops.creates[OpIndex{i}]) {
      maker[to_value(id)] = first_part(trace.ops.module[i]);
    }
  }
  for (std::size_t i = 0; i < users.size(); ++i) {
    StorageRole& role = trace.storages.role[i];
    if (role != StorageRole::kUnknown && role != StorageRole::kActivation) continue;
    const bool updated = optimizers.contains(users[i].updater);
    if (trace.storages.persistent[i] != 0) {
      role = updated && !others_read(i) ? StorageRole::kOptimizerState : StorageRole::kParameter;
    } else if (!optimizers.contains(maker[i])) {
      for (const std::string_view reader : users[i].readers) {
        if (optimizers.contains(reader)) role = StorageRole::kGradient;
      }
    }
  }
}

}  // namespace spillway::tf
