// SPDX-License-Identifier: Apache-2.0
#include "ops/op_facts.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "op_tables.hpp"
#include "spillway/base/name_hash.hpp"

namespace spillway::torch {

namespace {

// Operators of accelerators that write arguments their schema does not mark. No machine that makes
// the generated table can run them; their likes for the CPU are in it.
constexpr std::uint64_t kRunningStatistics = 0b11000;  // running_mean, running_var
constexpr std::array kUndeclaredWritesElsewhere{
    UndeclaredWrite{"aten::cudnn_batch_norm", kRunningStatistics},
    UndeclaredWrite{"aten::miopen_batch_norm", kRunningStatistics},
    UndeclaredWrite{"aten::batch_norm_gather_stats", kRunningStatistics},
    UndeclaredWrite{"aten::batch_norm_gather_stats_with_counts", kRunningStatistics},
    UndeclaredWrite{"aten::_cudnn_rnn_backward", 1U << 13U},  // reserve
};

constexpr std::string_view kMinor = SPILLWAY_TORCH_MINOR;
// Nothing is known of a minor that is being added. Until its operators have run, it gets every
// write that another minor showed, and no safe composite, so that each is an op like others.
constexpr bool kWasRun = names_minor(kRunUnder, kMinor);

static_assert(names_minor("2.9 2.11", "2.11") && names_minor("2.9 2.11", "2.9"));
static_assert(!names_minor("2.11", "2.1") && !names_minor("2.1", "2.11") && !names_minor("", ""));
static_assert(std::ranges::is_sorted(kSafeComposites, {}, &SafeComposite::op),
              "searched in halves");

template <typename Row>
bool holds_here(const Row& row) {
  return row.minors.empty() || names_minor(row.minors, kMinor);
}

// Takes no argument off, since their number varies.
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

std::mutex g_mutex;

std::set<std::string, std::less<>> split(std::string_view names) {
  std::set<std::string, std::less<>> result;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    if (end > begin) result.emplace(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

std::set<std::string, std::less<>>& kept_ops() {
  static auto* ops = new std::set<std::string, std::less<>>();
  return *ops;
}

// `name` with or without its overload is on the list.
bool is_kept(const std::string& name) {
  return kept_ops().contains(name) || kept_ops().contains(name.substr(0, name.find('.')));
}

// Those that set_transparent_ops named; none: the table's.
std::optional<std::set<std::string, std::less<>>>& transparent_ops() {
  static auto* ops = new std::optional<std::set<std::string, std::less<>>>();
  return *ops;
}

// Whether tensors of a graphics card are managed, from then on and for the life of the process.
bool g_for_card = false;

bool has_kernel_of_cards(const std::string& name) {
  const std::size_t dot = name.find('.');
  const c10::OperatorName op(name.substr(0, dot),
                             dot == std::string::npos ? "" : name.substr(dot + 1));
  const auto handle = c10::Dispatcher::singleton().findSchema(op);
  return handle && handle->hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

// `_foreach_*` operators on the CPU only loop over the ones for single tensors. That, and the
// table, is true of the CPU's kernels: a card has kernels of its own for many composites, which
// reach memory themselves.
bool is_transparent(const std::string& name) {
  if (g_for_card && has_kernel_of_cards(name)) return false;
  if (name.starts_with("aten::_foreach_")) return true;
  if (transparent_ops()) return transparent_ops()->contains(name);
  const auto* row =
      std::ranges::lower_bound(kSafeComposites, std::string_view(name), {}, &SafeComposite::op);
  return kWasRun && row != kSafeComposites.end() && row->op == name && holds_here(*row);
}

// Only torch's own schemas are held to their annotations, and to their tags, by torch's tests.
bool is_of_torch(std::string_view name) {
  return name.starts_with("aten::") || name.starts_with("prims::");
}

std::uint64_t written_arguments(const c10::FunctionSchema& schema, const std::string& full_name) {
  std::uint64_t written = 0;
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size() && i < 64; ++i) {
    const auto* alias = arguments[i].alias_info();
    if (alias != nullptr && alias->isWrite()) written |= std::uint64_t{1} << i;
  }
  for (const UndeclaredWrite& entry : kUndeclaredWrites) {
    if (full_name == entry.op && (!kWasRun || holds_here(entry))) written |= entry.arguments;
  }
  for (const UndeclaredWrite& entry : kUndeclaredWritesElsewhere) {
    if (full_name == entry.op) written |= entry.arguments;
  }
  if (!is_of_torch(schema.name())) written = ~std::uint64_t{0};
  return written;
}

bool needs_vary(const c10::FunctionSchema& schema) {
  if (!is_of_torch(schema.name())) return true;
  const auto handle = c10::Dispatcher::singleton().findSchema(schema.operator_name());
  return !handle || handle->hasTag(at::Tag::dynamic_output_shape) ||
         handle->hasTag(at::Tag::data_dependent_output);
}

// Something that may go on using tensors. Packed weights of quantised layers are such objects:
// kernels read the tensors inside them. (What a collective returns holds buffers that are kept
// anyway.)
bool is_closed(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::ClassType:
    case c10::TypeKind::InterfaceType:
    case c10::TypeKind::AnyType:
    case c10::TypeKind::PyObjectType:
    case c10::TypeKind::CapsuleType:
      return true;
    default:
      return std::ranges::any_of(type.containedTypes(),
                                 [](const c10::TypePtr& part) { return is_closed(*part); });
  }
}

bool returns_object(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(),
                             [](const c10::Argument& result) { return is_closed(*result.type()); });
}

OpFacts* make_facts(const c10::FunctionSchema& schema) {
  const std::string& base = schema.name();
  auto* name = new std::string(base);
  if (!schema.overload_name().empty()) *name += "." + schema.overload_name();
  const std::string_view view = base;
  const bool collective = view.starts_with("c10d::") || view.starts_with("_c10d_functional::");
  const bool packs = !collective && returns_object(schema);
  return new OpFacts{.name = name->c_str(),
                     .name_hash = hash_of_name(*name),
                     .written = written_arguments(schema, *name),
                     .arguments = schema.is_vararg() ? kAll : schema.arguments().size(),
                     .results = schema.is_varret() ? kAll : schema.returns().size(),
                     .needs_vary = needs_vary(schema),
                     .collective = collective,
                     .packs = packs,
                     .repeatable = repeatable(schema),
                     .statistics = running_statistics(schema),
                     .has_kernel = has_kernel(schema),
                     .shows_arguments = std::ranges::any_of(schema.returns(),
                                                            [](const c10::Argument& result) {
                                                              return result.alias_info() != nullptr;
                                                            }),
                     .reads_number = base == "aten::item" || base == "aten::_local_scalar_dense",
                     .keep{is_kept(*name)},
                     .transparent{is_transparent(*name)},
                     .called_others{false}};
}

std::unordered_map<const char*, OpFacts*>& all_facts() {
  static auto* facts = new std::unordered_map<const char*, OpFacts*>();
  return *facts;
}

const OpFacts* look_up(const char* name, const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  if (!schema) return nullptr;  // its name may be a temporary: not remembered
  const std::lock_guard lock(g_mutex);
  OpFacts*& entry = all_facts()[name];
  if (entry == nullptr) entry = make_facts(*schema);
  return entry;
}

c10::ArrayRef<const c10::IValue> last(c10::ArrayRef<const c10::IValue> values, std::size_t count) {
  return count < values.size() ? values.slice(values.size() - count) : values;
}

}  // namespace

c10::ArrayRef<const c10::IValue> arguments_of(const OpFacts& facts,
                                              const at::RecordFunction& function) {
  return last(function.inputs(), facts.arguments);
}

c10::ArrayRef<const c10::IValue> results_of(const OpFacts& facts,
                                            const at::RecordFunction& function) {
  const std::vector<c10::IValue>& outputs = function.outputs();
  return last(c10::ArrayRef<const c10::IValue>(outputs.data(), outputs.size()), facts.results);
}

const OpFacts* facts_of(const at::RecordFunction& function) {
  // A cache per thread in front of the locked map, since finding an op there copies its schema.
  // Sets of four, one cache line each: with direct mapping two of some forty operators of a step
  // are likely to push each other out every time.
  struct Entry {
    const char* name;
    const OpFacts* facts;
  };
  struct alignas(64) Set {
    std::array<Entry, 4> entries;
    std::size_t next;  // to be replaced
  };
  constexpr int kSetBits = 8;
  thread_local std::array<Set, std::size_t{1} << kSetBits> cache{};
  const char* name = function.name();
  // Fibonacci hashing (Knuth, TAOCP 6.4): names lie at multiples of large powers of two.
  const std::uint64_t hash = reinterpret_cast<std::uintptr_t>(name) * 0x9E3779B97F4A7C15ULL;
  Set& set = cache[hash >> (64 - kSetBits)];
  for (const Entry& entry : set.entries) {
    if (entry.name == name) return entry.facts;
  }
  const OpFacts* facts = look_up(name, function);
  if (facts != nullptr) set.entries[set.next++ % set.entries.size()] = {name, facts};
  return facts;
}

void lock_op_facts() { g_mutex.lock(); }
void unlock_op_facts() { g_mutex.unlock(); }

void set_for_card() {
  const std::lock_guard lock(g_mutex);
  g_for_card = true;
  for (auto& [name, facts] : all_facts()) facts->transparent.store(is_transparent(facts->name));
}

void set_kept_ops(const std::string& names) {
  const std::lock_guard lock(g_mutex);
  kept_ops() = split(names);
  for (auto& [name, facts] : all_facts()) facts->keep.store(is_kept(facts->name));
}

void set_transparent_ops(const char* names) {
  const std::lock_guard lock(g_mutex);
  transparent_ops().reset();
  if (names != nullptr) transparent_ops() = split(names);
  for (auto& [name, facts] : all_facts()) facts->transparent.store(is_transparent(facts->name));
}

std::string take_transparent_ops_seen() {
  const std::lock_guard lock(g_mutex);
  std::string names;
  for (auto& [name, facts] : all_facts()) {
    if (!facts->called_others.exchange(false)) continue;
    if (!names.empty()) names += ',';
    names += facts->name;
  }
  return names;
}

}  // namespace spillway::torch
