// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/bound/lower_bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "bound/price_ascent.hpp"
#include "bound/state_ascent.hpp"
#include "bound/window_scan.hpp"

namespace spillway::planning {
namespace {

using bound::Boundary;
using bound::CyclicView;

constexpr std::array<std::string_view, kBoundCauseCount> kCauseNames{
    "fetching", "evicting", "recomputing", "from disk", "to disk"};
static_assert(static_cast<std::size_t>(BoundCause::kToDisk) + 1 == kBoundCauseCount);

// Ways in which the circle of the step is cut open to choose disjoint windows.
constexpr std::size_t kCuts = 8;

std::vector<Boundary> boundaries_of(const StepModel& model) {
  std::vector<Boundary> boundaries;
  const std::uint64_t device = model.budget(Tier::kDevice);
  const std::uint64_t host = model.budget(Tier::kHost);
  if (model.copy_ns(LinkKind::kHostToDevice, 1) != kNever &&
      model.copy_ns(LinkKind::kDeviceToHost, 1) != kNever) {
    boundaries.push_back({.capacity = device});
    boundaries.push_back({device + host, LinkKind::kDiskToHost, LinkKind::kHostToDisk, true});
  } else {
    boundaries.push_back({device, LinkKind::kDiskToHost, LinkKind::kHostToDisk, true});
  }
  std::erase_if(boundaries, [&](const Boundary& boundary) {
    return model.copy_ns(boundary.in, 1) == kNever || model.copy_ns(boundary.out, 1) == kNever;
  });
  return boundaries;
}

struct Choice {
  double extra = 0;
  std::vector<std::size_t> windows;
};

// Disjoint windows with the largest sum, of those that do not cross the start of op `cut` + 1:
// weighted interval scheduling, with a counting sort by their ends.
Choice choose_windows(const std::vector<BoundWindow>& windows, std::size_t ops, std::size_t cut) {
  std::vector<std::size_t> first_by_end(ops + 1, windows.size());
  std::vector<std::size_t> next_of_end(windows.size(), windows.size());
  const auto start_of = [&](const BoundWindow& window) {
    return (window.first % ops + ops - cut) % ops;
  };
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::size_t end = start_of(windows[i]) + (windows[i].last - windows[i].first);
    if (end > ops) continue;
    next_of_end[i] = std::exchange(first_by_end[end], i);
  }
  std::vector<double> best(ops + 1);
  std::vector<std::size_t> chosen(ops + 1, windows.size());
  for (std::size_t end = 1; end <= ops; ++end) {
    best[end] = best[end - 1];
    for (std::size_t i = first_by_end[end]; i != windows.size(); i = next_of_end[i]) {
      const double sum = best[start_of(windows[i])] + windows[i].extra_ns;
      if (sum <= best[end]) continue;
      best[end] = sum;
      chosen[end] = i;
    }
  }
  Choice choice{best[ops], {}};
  for (std::size_t end = ops; end > 0;) {
    if (chosen[end] == windows.size()) {
      --end;
      continue;
    }
    choice.windows.push_back(chosen[end]);
    end = start_of(windows[chosen[end]]);
  }
  std::reverse(choice.windows.begin(), choice.windows.end());
  return choice;
}

Choice choose_over_cuts(const std::vector<BoundWindow>& windows, std::size_t ops) {
  std::vector<std::size_t> order(windows.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const std::size_t tops = std::min(kCuts - 1, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(tops), order.end(),
      [&](std::size_t a, std::size_t b) { return windows[a].extra_ns > windows[b].extra_ns; });
  Choice best = choose_windows(windows, ops, ops - 1);  // what does not cross the end of the step
  std::vector<std::size_t> tried{ops - 1};
  for (std::size_t k = 0; k < tops; ++k) {
    const std::size_t cut = windows[order[k]].first % ops;
    if (std::find(tried.begin(), tried.end(), cut) != tried.end()) continue;
    tried.push_back(cut);
    Choice choice = choose_windows(windows, ops, cut);
    if (choice.extra > best.extra) best = std::move(choice);
  }
  return best;
}

// By what is paid, in proportion.
void share_out(double extra, const BoundPayment& paid, bool to_disk, LowerBound& result) {
  const auto of = [&](BoundCause cause) -> double& {
    return result.extra_ns[static_cast<std::size_t>(cause)];
  };
  const double all = paid.in + paid.out + paid.again;
  const double in = all > 0 ? paid.in / all : 1;
  const double out = all > 0 ? paid.out / all : 0;
  of(to_disk ? BoundCause::kFromDisk : BoundCause::kFetching) += extra * in;
  of(to_disk ? BoundCause::kToDisk : BoundCause::kEvicting) += extra * out;
  of(BoundCause::kRecomputing) += extra * (1 - in - out);
}

// The cause of most, and the room that is short in the window that owes most to it.
void tell_what_binds(const CyclicView& view, LowerBound& result) {
  const auto most = std::max_element(result.extra_ns.begin(), result.extra_ns.end());
  if (*most <= 0 || result.windows.empty()) return;
  result.binds = static_cast<BoundCause>(most - result.extra_ns.begin());
  const auto owes = [&](const BoundWindow& window) {
    LowerBound alone;
    share_out(window.extra_ns, window.paid, window.to_disk, alone);
    return alone.extra_ns[static_cast<std::size_t>(*result.binds)];
  };
  const auto window = std::max_element(
      result.windows.begin(), result.windows.end(),
      [&](const BoundWindow& a, const BoundWindow& b) { return owes(a) < owes(b); });
  const StepModel& model = *view.model;
  const bool has_host = window->to_disk && model.has_host();
  Row op = view.op_at(window->instant);
  result.room.budget = model.budget(Tier::kDevice) + (has_host ? model.budget(Tier::kHost) : 0);
  // An instant between two ops may belong to the op before it.
  if (view.alive(op) <= result.room.budget) op = view.fullest();
  result.room.op = op;
  result.room.bytes_alive = view.alive(op);
}

}  // namespace

std::string_view to_string(BoundCause cause) {
  return kCauseNames.at(static_cast<std::size_t>(cause));
}

LowerBound lower_bound(const StepModel& model, BoundEffort effort) {
  LowerBound result;
  for (const TimeNs duration : model.least_duration) result.compute_ns += duration;
  result.step_ns = result.compute_ns;
  if (model.ops() == 0) return result;
  const CyclicView view(model);
  std::vector<BoundWindow> windows;
  bound::PricedStep priced;
  for (const Boundary& boundary : boundaries_of(model)) {
    bool over = false;
    for (Row op = 0; op < model.ops() && !over; ++op) {
      over = model.table.alive(op) > boundary.capacity;
    }
    if (!over) continue;
    std::vector<BoundWindow> own;
    bound::scan_windows_after(view, boundary, own);
    bound::scan_windows_before(view, boundary, own);
    bound::scan_windows_around(view, boundary, own);
    if (effort == BoundEffort::kFull) {
      std::vector<BoundWindow> disjoint;
      for (const std::size_t i : choose_over_cuts(own, model.ops()).windows) {
        disjoint.push_back(own[i]);
      }
      const bound::PricedStep found = bound::ascend_prices(view, boundary, disjoint);
      if (found.extra_ns > priced.extra_ns) priced = found;
      const bound::PricedStep whole = bound::ascend_state_prices(view, boundary, found.links);
      if (whole.extra_ns > priced.extra_ns) priced = whole;
    }
    windows.insert(windows.end(), own.begin(), own.end());
  }
  const Choice choice = choose_over_cuts(windows, model.ops());
  if (priced.extra_ns > choice.extra) {
    result.windows.push_back({.instant = priced.instant,
                              .last = model.ops(),
                              .extra_ns = priced.extra_ns,
                              .side = WindowSide::kAround,
                              .to_disk = priced.to_disk,
                              .paid = priced.paid});
  } else {
    for (const std::size_t i : choice.windows) result.windows.push_back(windows[i]);
  }
  for (const BoundWindow& window : result.windows) {
    share_out(window.extra_ns, window.paid, window.to_disk, result);
  }
  tell_what_binds(view, result);
  const double extra = std::max(choice.extra, priced.extra_ns);
  result.step_ns += static_cast<TimeNs>(std::floor(extra * (1 - 1e-9)));
  return result;
}

}  // namespace spillway::planning
