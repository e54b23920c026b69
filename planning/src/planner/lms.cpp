// SPDX-License-Identifier: Apache-2.0
// Le, Imai, Negishi, Kawachiya, "Automatic GPU memory management for large neural models in
// TensorFlow", ISMM 2019, and its release TFLMS v2. See docs/planners/README.md.
#include <algorithm>
#include <array>
#include <utility>

#include "analysis/levels.hpp"
#include "planner/gap_planner.hpp"
#include "planner/planners.hpp"

namespace spillway::planning {
namespace {

const std::array kFields{
    OptionField{"tune", "Threshold, ahead, groupby and sync mode are searched for; off: as given.",
                true},
    OptionField{"threshold", "Consumers more levels away than this read a copy swapped out and in.",
                std::int64_t{1}, 1, 4e9},
    OptionField{"ahead", "Swapping in is triggered this many levels before the use.",
                std::int64_t{1}, 0, 4e9},
    OptionField{"groupby",
                "Consumers of one storage at most this many levels apart share one swap-in.",
                std::int64_t{0}, 0, 4e9},
    OptionField{"sync-mode", "1: computing waits for copies out, 2: for copies in, 3: for both.",
                std::int64_t{0}, 0, 3},
    OptionField{"serialization-by-size",
                "Levels whose ops create more GiB than this count as a chain of levels; 0: none.",
                0.0, 0, 1e9},
    OptionField{"memory-ratio", "Part of the device budget that tuning lets a plan use.", 1.0, 0.01,
                1},
};

// How many ops back a trigger is looked for, as the release looks ten levels back.
constexpr Row kMostLookBack = 256;

struct Knobs {
  Row threshold, ahead, groupby;
  int sync;
};

// Levels whose ops create much are cut into one level per op, so that they run, and count, as a
// chain.
Levels serialized(const AccessTable& table, const std::vector<std::uint64_t>& created,
                  Levels levels, double most_bytes) {
  if (most_bytes <= 0) return levels;
  std::vector<std::uint64_t> bytes(levels.count);
  std::vector<Row> ops(levels.count);
  for (Row op = 0; op < table.ops(); ++op) {
    bytes[levels.of[op]] += created[op];
    ++ops[levels.of[op]];
  }
  std::vector<Row> base(levels.count);
  Row next = 0;
  for (Row level = 0; level < levels.count; ++level) {
    base[level] = next;
    next += static_cast<double>(bytes[level]) > most_bytes ? ops[level] : 1;
  }
  std::vector<Row> seen(levels.count);
  for (Row& level : levels.of) {
    const Row rank = static_cast<double>(bytes[level]) > most_bytes ? seen[level]++ : 0;
    level = base[level] + rank;
  }
  levels.count = next;
  return levels;
}

class Rewriter {
 public:
  Rewriter(const Problem& problem, const StepModel& model, Levels levels)
      : problem_(problem), model_(model), table_(model.table), levels_(std::move(levels)) {}

  [[nodiscard]] Draft rewrite(const Knobs& knobs) const {
    Draft draft(table_);
    if (!model_.has_host()) return draft;
    for (Row s = 0; s < table_.storages(); ++s) {
      if (is_feature_map(problem_, table_, s)) swap(s, knobs, draft);
    }
    return draft;
  }
  [[nodiscard]] Row count() const { return levels_.count; }

 private:
  // A dataflow graph has no writes in place: what it holds from the last write on is the edge.
  [[nodiscard]] Row source_of(Row storage) const {
    Row row = table_.first_touch(storage);
    while (model_.next_write[row] != kNoRow) row = table_.next_touch(row);
    return row;
  }

  void swap(Row storage, const Knobs& knobs, Draft& draft) const {
    const Row source = source_of(storage);
    const Row from = levels_.of[table_.op_of(source)];
    Row group = 0;  // level of the consumer before, of those that read the copy
    bool swapped = false;
    for (Row row = source; table_.next_touch(row) != kNoRow; row = table_.next_touch(row)) {
      const Row consumer = table_.op_of(table_.next_touch(row));
      const Row level = levels_.of[consumer];
      if (level <= from + knobs.threshold) continue;
      const bool shared = swapped && level <= group + knobs.groupby && level >= group;
      group = level;
      if (shared) continue;
      swapped = true;
      GapChoice& choice = draft.gap[row];
      const Row out = table_.op_of(row) + 1;
      const Row in = (knobs.sync & 2) != 0 ? consumer : trigger(consumer, out, knobs.ahead);
      choice = {.remedy = Remedy::kHost,
                .wait_out = (knobs.sync & 1) != 0,
                .wait_in = (knobs.sync & 2) != 0,
                .out_at = out,
                .in_at = in};
      if (out >= consumer) choice = {};
    }
  }

  // The op before which swapping in is queued: the last one `ahead` levels above the consumer.
  [[nodiscard]] Row trigger(Row consumer, Row least, Row ahead) const {
    const Row level = levels_.of[consumer];
    Row op = consumer;
    const std::uint64_t most = std::uint64_t{kMostLookBack} * (std::uint64_t{ahead} + 1);
    for (std::uint64_t steps = 0; steps < most && op > least; ++steps) {
      if (std::uint64_t{levels_.of[op]} + ahead < level) break;
      --op;
    }
    return std::max(op, least);
  }

  const Problem& problem_;
  const StepModel& model_;
  const AccessTable& table_;
  Levels levels_;
};

class Tuner {
 public:
  Tuner(const Problem& problem, const StepModel& model, const Rewriter& rewriter,
        const std::string& label, double ratio)
      : problem_(problem),
        model_(model),
        rewriter_(rewriter),
        label_(label),
        budget_(ratio * static_cast<double>(model.budget(Tier::kDevice))) {}

  std::optional<Plan> plan(const Knobs& knobs) const {
    const Draft draft = rewriter_.rewrite(knobs);
    if (!fits(model_, draft)) return std::nullopt;
    return checked_plan(problem_, model_, draft, label_);
  }

  // In the published order: no swapping; the least; the largest threshold; the largest ahead; the
  // largest groupby.
  std::optional<Plan> tune() const {
    const Row count = rewriter_.count();
    Knobs knobs{count, 1, 0, 0};
    if (plays(knobs)) return plan(knobs);
    knobs.threshold = 1;
    while (!plays(knobs)) {
      if (++knobs.sync > 3) return std::nullopt;
    }
    const auto largest = [&](Row Knobs::*knob, Row most) {
      Row low = knobs.*knob;
      Row high = most;
      while (low < high) {
        const Row middle = low + (high - low + 1) / 2;
        Knobs tried = knobs;
        tried.*knob = middle;
        plays(tried) ? low = middle : high = middle - 1;
      }
      knobs.*knob = low;
    };
    largest(&Knobs::threshold, count);
    largest(&Knobs::ahead, std::min<Row>(count, kMostLookBack));
    Knobs all = knobs;
    all.groupby = count;
    if (plays(all)) {
      knobs = all;
    } else {
      largest(&Knobs::groupby, count);
    }
    return plan(knobs);
  }

 private:
  // The release counts levels and bytes and no time; so does this.
  [[nodiscard]] bool plays(const Knobs& knobs) const {
    for (const std::int64_t bytes : bytes_per_op(model_, rewriter_.rewrite(knobs))) {
      if (static_cast<double>(bytes) > budget_) return false;
    }
    return true;
  }

  const Problem& problem_;
  const StepModel& model_;
  const Rewriter& rewriter_;
  const std::string& label_;
  double budget_;
};

class LmsPlanner final : public Planner {
 public:
  [[nodiscard]] std::string_view name() const override { return "lms"; }
  [[nodiscard]] std::string_view summary() const override {
    return "Swaps what is read many levels after it was made; threshold, ahead and groupby by "
           "binary search (TFLMS v2, Le et al. 2019).";
  }
  [[nodiscard]] std::span<const OptionField> options() const override { return kFields; }

  using Planner::plan;
  [[nodiscard]] PlanOutcome plan(const Problem& problem, const Options& options,
                                 const PlanningContext& context) const override {
    const std::string label = label_of(*this, options);
    return outcome_of(problem, context, [&](const Problem& p, const StepModel& model) {
      const double gib = options.get<double>("serialization-by-size");
      const Rewriter rewriter(p, model,
                              serialized(model.table, model.created, levels_of(model.table),
                                         gib * static_cast<double>(kGiB.count)));
      const Tuner tuner(p, model, rewriter, label, options.get<double>("memory-ratio"));
      if (options.get<bool>("tune")) return tuner.tune();
      const auto whole = [&](std::string_view field) {
        return static_cast<Row>(
            std::min<std::int64_t>(options.get<std::int64_t>(field), std::int64_t{kNoRow} / 4));
      };
      return tuner.plan({whole("threshold"), whole("ahead"), whole("groupby"),
                         static_cast<int>(options.get<std::int64_t>("sync-mode"))});
    });
  }
};

}  // namespace

const Planner& lms_planner() {
  static const LmsPlanner planner;
  return planner;
}

}  // namespace spillway::planning
