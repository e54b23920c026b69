// SPDX-License-Identifier: Apache-2.0
#include "cli/help_text.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>

#include "text/output_text.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

constexpr std::size_t kIndent = 4;

std::string paragraph(std::string_view text, std::size_t indent) {
  std::string result;
  for (const std::string& line : wrap_text(text, kColumns - indent)) {
    result += fmt::format("{:{}}{}\n", "", indent, line);
  }
  return result;
}

std::string usage(const CLI::App& command) {
  const std::string& name = command.get_name();
  const std::string path = command_path(command);
  if (name == "run") return path + " [flags] -- PROGRAM...";
  if (name == "record") return path + " -o FILE [flags] -- PROGRAM...";
  if (!command.get_subcommands({}).empty()) return path + " COMMAND";
  std::string text = path + " [flags]";
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) text += " " + option->get_name(true);
  }
  if (name == "what-if") text += "...";  // the only command that takes several files
  return text;
}

std::string flags_text(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) continue;
    std::string name = option->get_name(false, true);
    if (const auto comma = name.find(','); comma != std::string::npos) name.insert(comma + 1, " ");
    if (option->get_items_expected() != 0) name += " " + option->get_type_name();
    text += fmt::format("  {}\n{}", name, paragraph(option->get_description(), kIndent + 2));
  }
  return text;
}

std::string_view examples(const std::string& name) {
  if (name == "spillway") {
    return "  spillway run --budget 12GiB -- python train.py\n"
           "  spillway doctor\n"
           "  spillway record -o step.json.zst -- python train.py\n"
           "  spillway plan step.json.zst --budget 60% -o plan.json\n";
  }
  if (name == "run") {
    return "  spillway run --budget 12GiB -- python train.py --epochs 3\n"
           "  spillway run --budget cpu:80% --spool-dir /fast/disk -- torchrun train.py\n";
  }
  if (name == "record") return "  spillway record -o step.json.zst -- python train.py\n";
  if (name == "plan") {
    return "  spillway plan step.json.zst --budget 12GiB --machine h200 -o plan.json\n"
           "  spillway plan step.json.zst --budget 60% --planner lru\n";
  }
  if (name == "simulate") return "  spillway simulate step.json.zst --plan plan.json\n";
  if (name == "compare") return "  spillway compare step.json.zst --budget 80%,60%,40%\n";
  if (name == "explain") return "  spillway explain plan.json --top 5\n";
  if (name == "what-if") {
    return "  spillway what-if step.json.zst --slowdown 5%\n"
           "  spillway what-if step.json.zst --machines\n"
           "  spillway what-if --budget 12GiB --batch 1:512 -- python train.py -b {batch}\n"
           "  spillway what-if batch8.json.zst batch16.json.zst --machine a100\n";
  }
  return "";
}

}  // namespace

std::string command_path(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : command_path(*parent) + " " + command.get_name();
}

std::string help_text(const CLI::App& command) {
  std::string text = paragraph(command.get_description(), 0);
  text += fmt::format("\nUsage: {}\n", usage(command));
  const auto commands = command.get_subcommands({});
  if (!commands.empty()) text += "\nCommands:\n";
  for (const CLI::App* inner : commands) {
    text += fmt::format("  {:<8} {}\n", inner->get_name(), inner->get_description());
  }
  text += "\nFlags:\n" + flags_text(command);
  const std::string_view shown = examples(command.get_name());
  if (!shown.empty()) text += fmt::format("\nExamples:\n{}", shown);
  return text;
}

}  // namespace spillway::tools
