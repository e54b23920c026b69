// SPDX-License-Identifier: Apache-2.0
#include "ops/op_origins.hpp"

namespace spillway::torch {

namespace {

const std::string kNowhere;
// As many as the ops of the longest step that is recorded (TraceRecorder::kMostOps).
constexpr std::size_t kMostNodes = 1'000'000;

struct ThreadPlace {
  const std::string* module = &kNowhere;
  int nodes = 0;
  std::int64_t node = -1;  // sequence number of the innermost
};
thread_local ThreadPlace t_place;

}  // namespace

OpOrigins& OpOrigins::get() {
  static auto* origins = new OpOrigins();
  return *origins;
}

const std::string* OpOrigins::kept(std::string_view text) {
  const auto found = texts_.find(text);
  return found != texts_.end() ? &*found : &*texts_.emplace(text).first;
}

void OpOrigins::begin(WhereFunction where) {
  const std::lock_guard lock(mutex_);
  where_ = where;
  lines_.clear();
  forward_.clear();
}

void OpOrigins::begin_step() {
  const std::lock_guard lock(mutex_);
  forward_.clear();
}

void OpOrigins::name_line(std::uint32_t number, std::string_view text) {
  const std::lock_guard lock(mutex_);
  lines_[number] = kept(text);
}

void OpOrigins::enter_module(std::string_view name) {
  const std::lock_guard lock(mutex_);
  t_place.module = kept(name);
}

bool OpOrigins::in_module() { return !t_place.module->empty(); }

void OpOrigins::enter_node(std::int64_t sequence_number) {
  ++t_place.nodes;
  t_place.node = sequence_number;
}

void OpOrigins::leave_node() { --t_place.nodes; }

bool OpOrigins::in_node() { return t_place.nodes > 0; }

OpOrigins::Origin OpOrigins::of(const at::RecordFunction& function) {
  const bool of_a_node = in_node() && !in_module();
  const WhereFunction where = where_.load();
  const std::uint32_t line = where == nullptr || of_a_node ? 0 : where();
  const std::lock_guard lock(mutex_);
  if (of_a_node) {
    const auto origin = forward_.find(t_place.node);
    return origin != forward_.end() ? origin->second : Origin{&kNowhere, &kNowhere};
  }
  const auto text = lines_.find(line);
  const Origin origin{t_place.module, text != lines_.end() ? text->second : &kNowhere};
  if (in_node() || function.seqNr() < 0) return origin;
  if (forward_.size() == kMostNodes) forward_.clear();  // of a program that marks no steps
  forward_.try_emplace(function.seqNr(), origin);
  return origin;
}

}  // namespace spillway::torch
