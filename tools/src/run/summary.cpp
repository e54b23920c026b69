// SPDX-License-Identifier: Apache-2.0
#include "run/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "spillway/runtime/device/mapping_time.hpp"
#include "text/output_text.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

std::string line(std::string_view word, std::string_view text) {
  return fmt::format("  {:<9} {}\n", word, text);
}

std::string header(const StatusTotals& totals) {
  std::string text = fmt::format("spillway: {} for {}", to_string(totals.sum.mode),
                                 short_time(totals.longest_elapsed));
  if (totals.processes > 1) text += fmt::format(" in {} processes", totals.processes);
  return text + "\n";
}

std::string device_line(const StatusTotals& totals) {
  const ProcessStatus& fullest = totals.fullest;
  const char* which = totals.processes > 1 ? " (the fullest process)" : "";
  if (fullest.mode == runtime::Mode::kRecord) {
    return line("device", fmt::format("peak {}, floor {}{}", to_string(fullest.peak_device),
                                      to_string(fullest.floor), which));
  }
  if (fullest.budget.count == 0) {
    return line("device",
                fmt::format("peak {}, no budget{}", to_string(fullest.peak_device), which));
  }
  std::string text = fmt::format("peak {} of budget {}{}", to_string(fullest.peak_device),
                                 to_string(fullest.budget), which);
  return line("device", text);
}

std::string why_nothing(const ProcessStatus& sum) {
  if (!moves(sum.mode)) return fmt::format("nothing: mode {} moves nothing", to_string(sum.mode));
  const bool fitted = sum.shortages == 0 && sum.overshoot == Bytes{0};
  return fitted ? "nothing: everything fitted" : "nothing";
}

// Says that an op did not fit even if the program went on.
std::string outcome_lines(const StatusTotals& totals, bool failed) {
  const ProcessStatus& sum = totals.sum;
  std::string text;
  if (failed && sum.died_short) {
    text += fmt::format("  ended: out of memory, short {}\n", to_string(sum.short_by));
  } else if (sum.shortages != 0) {
    text +=
        line("refused", fmt::format("{} {} that did not fit, short {}", sum.shortages,
                                    sum.shortages == 1 ? "op" : "ops", to_string(sum.short_by)));
  }
  if (totals.resting != 0) text += fmt::format("  {}\n", fits_text(totals));
  return text;
}

std::string part_of_time(TimeNs time, const ProcessStatus& sum) {
  return fmt::format("{}, {} of {}", short_time(time), short_percent(share_of_time(time, sum)),
                     short_time(sum.elapsed));
}

std::string steps_line(const StatusTotals& totals) {
  const ProcessStatus& sum = totals.sum;
  if (sum.steps == 0) return line("steps", "none recognised");
  // Without an optimizer nothing tells of a step that nobody watches.
  const bool stands = totals.resting != 0 && sum.steps == sum.stopped_after_step;
  const std::string count = fmt::format("{}{}{}", totals.processes > 1 ? "up to " : "", sum.steps,
                                        stands ? " while watched" : "");
  if (sum.last_step == 0) return line("steps", count);  // the first has no beginning
  return line("steps", fmt::format("{}, the last took {} and moved {}", count,
                                   short_time(sum.last_step), short_bytes(sum.last_step_moved)));
}

std::string movers_lines(const std::vector<Mover>& movers) {
  if (movers.empty()) return "";
  std::string text = "  largest movers (out and in)\n";
  for (const Mover& mover : movers) {
    const std::string row = fmt::format("  {:>9}  {}", short_bytes(mover.moved), mover.name);
    text += row.size() <= kColumns ? row : row.substr(0, kColumns - 3) + "...";
    text += '\n';
  }
  return text;
}

std::string wrapped_lines(std::string_view word, const std::string& sentence) {
  const std::size_t width = kColumns - line("", "").size() + 1;  // without the line's end
  std::string text;
  for (const std::string& part : wrap_text(sentence, width)) {
    text += line(text.empty() ? word : "", printable(part, width));  // a name may be longer
  }
  return text;
}

std::string notes_lines(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += wrapped_lines("note", note);
  return text;
}

}  // namespace

std::string format_summary(const StatusTotals& totals, bool failed) {
  const ProcessStatus& sum = totals.sum;
  std::string text = header(totals) + outcome_lines(totals, failed) + device_line(totals);
  if (!sum.pages.empty()) text += wrapped_lines("pages", sum.pages);
  if (!sum.planner.empty()) text += line("planner", sum.planner);
  if (sum.overshoot > Bytes{0}) {
    text += line("overshoot", fmt::format("{} above the budget at most", to_string(sum.overshoot)));
  }
  const Bytes evicted = sum.evicted + sum.clean_evicted;
  if (evicted + sum.fetched == Bytes{0}) {
    text += line("evicted", why_nothing(sum));
  } else {
    text += line("evicted", fmt::format("{}, of which {} clean (no copy needed)",
                                        short_bytes(evicted), short_bytes(sum.clean_evicted)));
    text += line("fetched", short_bytes(sum.fetched));
    text += line("disk", fmt::format("written {}, read {}", short_bytes(sum.disk_written),
                                     short_bytes(sum.disk_read)));
    if (!sum.io.empty()) text += line("transfers", sum.io);
    text += line("stall", part_of_time(sum.stall, sum));
  }
  if (runtime::mapping_matters(sum.mapping, sum.elapsed))
    text += line("mapping", part_of_time(sum.mapping, sum));
  return text + steps_line(totals) + notes_lines(sum.notes) + movers_lines(sum.movers);
}

std::string format_never_loaded(bool autoload_is_off) {
  const std::string_view fact =
      "spillway: the program loaded no framework with Spillway: nothing was managed.\n";
  if (autoload_is_off) {
    return fmt::format(
        "{}  TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set, which keeps it out; unset it.\n", fact);
  }
  return fmt::format(
      "{}  If it uses PyTorch or TensorFlow, its Python lacks Spillway: spillway doctor\n", fact);
}

std::string format_card_unused() {
  return "spillway: the program used no graphics card, so nothing was managed: the budget is of\n"
         "  a card's memory. To hold the CPU's: --budget cpu:8GiB\n";
}

}  // namespace spillway::tools
