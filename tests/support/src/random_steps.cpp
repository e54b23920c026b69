// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/random_steps.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace spillway::testing {
namespace {

bool chance(std::mt19937& random, unsigned percent) { return random() % 100 < percent; }

// --- steps ---

/// Builds one op after the other from the storages that are alive.
class StepMaker {
 public:
  explicit StepMaker(std::mt19937& random) : random_(random) {}

  Trace make(std::size_t ops) {
    for (int i = 0; i < 4; ++i) persistent_.push_back(add(true));
    for (int i = 0; i < 3; ++i) left_over_.push_back(add(false));
    for (std::size_t op = 0; op < ops; ++op) add_op(op + 1 == ops);
    go_on();
    return std::move(trace_);
  }

 private:
  StorageId add(bool persistent) {
    return trace_.add(TraceStorage{.bytes = {1 + random_() % 100}, .persistent = persistent});
  }

  void add_op(bool last) {
    TraceOp op{.name = "op", .duration_ns = static_cast<TimeNs>(random_() % 60)};
    for (auto count = random_() % 3; count > 0; --count) {
      op.creates.push_back(add(false));
      made_.push_back(op.creates.back());
    }
    const auto use_some = [&](const std::vector<StorageId>& from, std::vector<StorageId>& to) {
      for (const StorageId id : from) {
        if (chance(random_, 20)) to.push_back(id);
      }
    };
    for (const auto* from : {&persistent_, &left_over_, &made_}) use_some(*from, op.reads);
    std::erase_if(op.reads, [&](StorageId id) {
      return std::find(op.creates.begin(), op.creates.end(), id) != op.creates.end();
    });
    op.writes = op.creates;
    op.recomputable = chance(random_, 60);
    if (!op.recomputable) use_some(persistent_, op.writes);
    if (chance(random_, 30)) op.workspace = {random_() % 40};
    free_some(op, left_over_, last);
    free_some(op, made_, false);
    trace_.add(op);
  }

  void free_some(TraceOp& op, std::vector<StorageId>& from, bool all) {
    std::erase_if(from, [&](StorageId id) {
      const bool goes = all || chance(random_, 12);
      if (goes) op.frees.push_back(id);
      return goes;
    });
  }

  /// A storage alive at the end goes on as a left-over one, where one of its size can be made.
  void go_on() {
    StorageId beginning{4};  // the first of those left over
    for (const StorageId id : made_) {
      if (to_value(beginning) >= 7 || chance(random_, 30)) continue;
      trace_.storages.bytes[to_value(beginning)] = trace_.storages.bytes[to_value(id)];
      trace_.storages.continues[to_value(id)] = beginning;
      beginning = StorageId{to_value(beginning) + 1};
    }
  }

  std::mt19937& random_;
  Trace trace_;
  std::vector<StorageId> persistent_, left_over_, made_;
};

// --- plans ---

/// Walks the step, deciding at every op what to do with every storage that is alive.
class PlanMaker {
 public:
  PlanMaker(std::mt19937& random, const Trace& trace, const PlanMeans& means)
      : random_(random), trace_(trace), means_(means) {
    for (const StorageId id : trace.ops.creates.items) born_.insert(id);
    for (const StorageId id : trace.storages.continues) continued_.insert(id);
    for (std::size_t op = 0; op < trace.ops.size(); ++op) {
      for (const StorageId id : trace.ops.creates[OpIndex{op}]) creator_[id] = OpIndex{op};
      for (const StorageId id : trace.ops.writes[OpIndex{op}]) {
        if (creator_.count(id) == 0 || creator_[id] != OpIndex{op}) written_.insert(id);
      }
    }
  }

  Plan make() {
    plan_.planner = "random";
    plan_.structure = structure_hash(trace_);
    begin();
    for (std::size_t op = 0; op <= trace_.ops.size(); ++op) {
      op_ = OpIndex{op};
      if (op == trace_.ops.size()) break;
      std::vector<StorageId> alive;
      for (const auto& [id, copies] : copies_) alive.push_back(id);
      for (const StorageId id : alive) decide(id);
      run_op();
    }
    end();
    sort(plan_);
    return std::move(plan_);
  }

 private:
  using Copies = std::set<Tier>;

  void begin() {
    for (std::size_t i = 0; i < trace_.storages.size(); ++i) {
      const StorageId id{i};
      if (born_.contains(id)) continue;
      Tier tier = Tier::kDevice;
      const bool stays = trace_.storages.persistent[i] != 0 || continued_.contains(id);
      if (stays && chance(random_, 40)) tier = lower_tier();
      copies_[id] = beginning_[id] = {tier};
      if (tier == Tier::kDevice) continue;
      plan_.places.push_back({.storage = id});
      plan_.places.back().add(tier);
    }
  }

  Tier lower_tier() {
    const bool disk = means_.disk && (!means_.host || chance(random_, 40));
    return disk ? Tier::kDisk : Tier::kHost;
  }

  [[nodiscard]] bool is_used(StorageId id) const {
    for (const StorageLists* lists : {&trace_.ops.reads, &trace_.ops.writes}) {
      const auto row = (*lists)[op_];
      if (std::find(row.begin(), row.end(), id) != row.end()) return true;
    }
    return false;
  }

  /// Its creator may be run again at any time: it reads what lives and stays as it is.
  [[nodiscard]] bool can_be_made_again(StorageId id) const {
    if (!means_.recomputations) return false;
    const auto creator = creator_.find(id);
    if (creator == creator_.end() || written_.contains(id)) return false;
    if (trace_.ops.recomputable[to_value(creator->second)] == 0) return false;
    const auto reads = trace_.ops.reads[creator->second];
    return std::all_of(reads.begin(), reads.end(), [&](StorageId read) {
      return trace_.storages.persistent[to_value(read)] != 0 && !written_.contains(read);
    });
  }

  void decide(StorageId id) {
    const Copies& copies = copies_[id];
    if (copies.empty()) {
      if (is_used(id)) make_again(id);
      return;
    }
    if (copies.contains(Tier::kDevice)) {
      if (is_used(id)) return;
      if (chance(random_, 12)) return evict(id, lower_tier());
      if (chance(random_, 5)) return forget(id);
      if (chance(random_, 20) && can_be_made_again(id)) {
        plan_.actions.push_back(PlanAction::drop(op_, id));
        copies_[id].clear();
      }
      return;
    }
    if (chance(random_, is_used(id) ? 60 : 15)) {
      fetch(id);
    } else if (means_.disk && copies.contains(Tier::kHost) && chance(random_, 20)) {
      plan_.actions.push_back(PlanAction::demote(op_, id));
      copies_[id] = {Tier::kDisk};
    }
    if (chance(random_, 10)) plan_.actions.push_back(PlanAction::wait(op_, id));
  }

  void evict(StorageId id, Tier tier) {
    plan_.actions.push_back(PlanAction::evict(op_, id, tier));
    Copies& copies = copies_[id];
    copies.erase(Tier::kDevice);
    if (copies.empty()) {
      copies = {tier};
    } else if (tier == Tier::kDisk) {
      copies = {Tier::kDisk};
    }
  }
  void fetch(StorageId id) {
    plan_.actions.push_back(PlanAction::fetch(op_, id));
    copies_[id].insert(Tier::kDevice);
  }
  void forget(StorageId id) {
    plan_.actions.push_back(PlanAction::forget(op_, id));
    copies_[id] = {Tier::kDevice};
  }
  void make_again(StorageId id) {
    plan_.actions.push_back(PlanAction::recompute(op_, creator_.at(id)));
    for (const StorageId made : trace_.ops.creates[creator_.at(id)]) {
      const auto copies = copies_.find(made);
      if (copies != copies_.end() && copies->second.empty()) copies->second = {Tier::kDevice};
    }
    for (const StorageId read : trace_.ops.reads[creator_.at(id)]) {
      copies_[read].insert(Tier::kDevice);
    }
  }

  void run_op() {
    for (const StorageId id : trace_.ops.creates[op_]) copies_[id] = {Tier::kDevice};
    for (const StorageId id : trace_.ops.reads[op_]) copies_[id].insert(Tier::kDevice);
    for (const StorageId id : trace_.ops.writes[op_]) copies_[id] = {Tier::kDevice};
    for (const StorageId id : trace_.ops.frees[op_]) copies_.erase(id);
  }

  /// Brings all that lives on back to where it begins.
  void end() {
    std::vector<StorageId> alive;
    for (const auto& [id, copies] : copies_) alive.push_back(id);
    // First what is made again, since that brings others in.
    for (const StorageId id : alive) {
      if (copies_[id].empty() && goes_on_as(id) != kNoStorage) make_again(id);
    }
    for (const StorageId id : alive) {
      const StorageId next = goes_on_as(id);
      if (next == kNoStorage || copies_[id] == beginning_.at(next)) continue;
      if (!copies_[id].contains(Tier::kDevice)) fetch(id);
      forget(id);
      const Tier tier = *beginning_.at(next).begin();
      if (tier != Tier::kDevice) evict(id, tier);
    }
  }

  [[nodiscard]] StorageId goes_on_as(StorageId id) const {
    return trace_.storages.persistent[to_value(id)] != 0 ? id
                                                         : trace_.storages.continues[to_value(id)];
  }

  std::mt19937& random_;
  const Trace& trace_;
  PlanMeans means_;
  Plan plan_;
  std::set<StorageId> born_, continued_, written_;
  std::map<StorageId, OpIndex> creator_;
  std::map<StorageId, Copies> copies_, beginning_;
  OpIndex op_{};
};

// --- large steps ---

constexpr std::uint64_t kActivation = 4'194'304;
constexpr std::uint64_t kWeight = 589'824;

/// The rows of one kind of op, in the forward pass, the backward pass and the update.
class LayeredStep {
 public:
  Trace make(std::size_t layers) {
    trace_.framework = "generated";
    StorageId input = trace_.add(TraceStorage{.bytes = {kActivation}, .role = StorageRole::kInput});
    const StorageId first = input;
    for (std::size_t layer = 0; layer < layers; ++layer) input = forward(layer, input);
    StorageId gradient = loss(input);
    for (std::size_t layer = layers; layer > 0; --layer) gradient = backward(layer - 1, gradient);
    add("aten::detach_", 1'000, {}, {}, {}, {first, gradient}, "data");
    for (std::size_t layer = 0; layer < layers; ++layer) update(layer);
    return std::move(trace_);
  }

 private:
  struct Layer {
    std::vector<StorageId> weights, moments, gradients, kept;
  };

  StorageId storage(std::uint64_t bytes, StorageRole role, bool persistent, std::string name) {
    return trace_.add(TraceStorage{
        .bytes = {bytes}, .role = role, .persistent = persistent, .name = std::move(name)});
  }

  void add(const char* name, TimeNs ns, std::vector<StorageId> creates,
           std::vector<StorageId> reads, std::vector<StorageId> writes,
           std::vector<StorageId> frees, const std::string& module, bool recomputable = false) {
    writes.insert(writes.end(), creates.begin(), creates.end());
    constexpr TimeNs kJitter = 997;
    trace_.add(TraceOp{.name = name,
                       .duration_ns = ns + static_cast<TimeNs>(trace_.ops.size()) % kJitter,
                       .flop = static_cast<std::uint64_t>(ns) * 4'096,
                       .bytes_touched = Bytes{static_cast<std::uint64_t>(ns) * 512},
                       .arithmetic = Arithmetic::kFloat32,
                       .recomputable = recomputable,
                       .source = "model.py:" + std::to_string(40 + trace_.ops.size() % 60),
                       .module = module,
                       .workspace = {static_cast<std::uint64_t>(ns) * 16},
                       .reads = std::move(reads),
                       .writes = std::move(writes),
                       .creates = std::move(creates),
                       .frees = std::move(frees)});
  }

  StorageId forward(std::size_t layer, StorageId input) {
    Layer& rows = layers_.emplace_back();
    const std::string module = "blocks." + std::to_string(layer);
    StorageId value = input;
    rows.kept.push_back(input);
    constexpr std::size_t kUnits = 2;
    for (std::size_t unit = 0; unit < kUnits; ++unit) {
      const std::string name = module + ".conv" + std::to_string(unit);
      rows.weights.push_back(storage(kWeight, StorageRole::kParameter, true, name + ".weight"));
      for (int moment = 0; moment < 2; ++moment) {
        rows.moments.push_back(storage(kWeight, StorageRole::kOptimizerState, true, ""));
      }
      const StorageId convolved = storage(kActivation, StorageRole::kActivation, false, "");
      add("aten::convolution", 90'000, {convolved}, {value, rows.weights.back()}, {}, {}, name,
          true);
      const StorageId normal = storage(kActivation, StorageRole::kActivation, false, "");
      const StorageId saved = storage(512, StorageRole::kActivation, false, "");
      add("aten::native_batch_norm", 20'000, {normal, saved}, {convolved}, {}, {},
          module + ".bn" + std::to_string(unit));
      const StorageId active = storage(kActivation, StorageRole::kActivation, false, "");
      add("aten::relu", 9'000, {active}, {normal}, {}, {normal}, module + ".relu", true);
      rows.kept.insert(rows.kept.end(), {convolved, saved, active});
      value = active;
    }
    return value;
  }

  StorageId loss(StorageId input) {
    const StorageId value = storage(4, StorageRole::kActivation, false, "loss");
    const StorageId gradient = storage(kActivation, StorageRole::kGradient, false, "");
    add("aten::mse_loss", 9'000, {value}, {input}, {}, {}, "loss");
    add("aten::mse_loss_backward", 9'000, {gradient}, {input, value}, {}, {value}, "loss");
    return gradient;
  }

  StorageId backward(std::size_t layer, StorageId gradient) {
    Layer& rows = layers_[layer];
    const std::string module = "blocks." + std::to_string(layer);
    for (std::size_t unit = rows.weights.size(); unit > 0; --unit) {
      const StorageId input = rows.kept[3 * (unit - 1)];
      const StorageId convolved = rows.kept[3 * unit - 2];
      const StorageId saved = rows.kept[3 * unit - 1];
      const StorageId active = rows.kept[3 * unit];
      const auto made = [&] { return storage(kActivation, StorageRole::kGradient, false, ""); };
      const StorageId through_relu = made();
      add("aten::threshold_backward", 12'000, {through_relu}, {gradient, active}, {},
          {gradient, active}, module + ".relu");
      const StorageId through_norm = made();
      add("aten::native_batch_norm_backward", 40'000, {through_norm},
          {through_relu, convolved, saved}, {}, {through_relu, convolved, saved}, module + ".bn");
      const StorageId next = made();
      const StorageId weight = storage(kWeight, StorageRole::kGradient, false, "");
      add("aten::convolution_backward", 190'000, {next, weight},
          {through_norm, input, rows.weights[unit - 1]}, {}, {through_norm}, module + ".conv");
      rows.gradients.push_back(weight);
      gradient = next;
    }
    return gradient;
  }

  void update(std::size_t layer) {
    Layer& rows = layers_[layer];
    const std::string module = "optimizer";
    for (std::size_t unit = 0; unit < rows.weights.size(); ++unit) {
      const StorageId gradient = rows.gradients[rows.weights.size() - 1 - unit];
      const StorageId mean = rows.moments[2 * unit];
      const StorageId square = rows.moments[2 * unit + 1];
      add("aten::mul_", 3'000, {}, {mean}, {mean}, {}, module);
      add("aten::add_", 3'000, {}, {mean, gradient}, {mean}, {}, module);
      add("aten::mul_", 3'000, {}, {square}, {square}, {}, module);
      add("aten::addcmul_", 4'000, {}, {square, gradient}, {square}, {gradient}, module);
      const StorageId root = storage(kWeight, StorageRole::kWorkspace, false, "");
      add("aten::sqrt", 3'000, {root}, {square}, {}, {}, module, true);
      add("aten::addcdiv_", 4'000, {}, {rows.weights[unit], mean, root}, {rows.weights[unit]},
          {root}, module);
    }
  }

  Trace trace_;
  std::vector<Layer> layers_;
};

}  // namespace

Trace random_step(std::mt19937& random, std::size_t ops) { return StepMaker(random).make(ops); }

Plan random_plan(std::mt19937& random, const Trace& trace, const PlanMeans& means) {
  return PlanMaker(random, trace, means).make();
}

Trace layered_step(std::size_t layers) { return LayeredStep().make(layers); }

}  // namespace spillway::testing
