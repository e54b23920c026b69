// SPDX-License-Identifier: Apache-2.0
#include "spillway/trace/trace_io.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "../base/compressed_text.hpp"
#include "../base/json_rows.hpp"
#include "../base/text_file.hpp"
#include "spillway/base/error.hpp"

namespace spillway {
namespace {

enum MemberKey : std::size_t {
  kVersion,
  kMachine,
  kFramework,
  kTimed,
  kWorkspaceKnown,
  kRunPeak,
  kRunFloor,
  kScratchKnown,  // its name before version 4
};
constexpr std::array<std::string_view, 8> kMembers{"spillway_trace", "machine",         "framework",
                                                   "timed",          "workspace_known", "run_peak",
                                                   "run_floor",      "scratch_known"};

enum StorageKey : std::size_t { kId, kBytes, kRole, kPersistent, kStorageName, kContinues };
constexpr std::array<std::string_view, 6> kStorageKeys{"id",         "bytes", "role",
                                                       "persistent", "name",  "continues"};

enum OpKey : std::size_t {
  kName,
  kNs,
  kFlop,
  kTouched,
  kThread,
  kStream,
  kArithmetic,
  kRecomputable,
  kSource,
  kModule,
  kWorkspace,
  kCreates,
  kReads,
  kWrites,
  kFrees,
  kViews,
  kAlternativesNs,
  kAlternativesWorkspace,
  kSignature,
  kReplayable,  // this and what follows: names before version 4
  kAllocPeak,
  kAlternativesAllocPeak,
};
constexpr std::array<std::string_view, 22> kOpKeys{"name",
                                                   "ns",
                                                   "flop",
                                                   "bytes",
                                                   "thread",
                                                   "stream",
                                                   "arithmetic",
                                                   "recomputable",
                                                   "source",
                                                   "module",
                                                   "workspace",
                                                   "creates",
                                                   "reads",
                                                   "writes",
                                                   "frees",
                                                   "views",
                                                   "alternatives_ns",
                                                   "alternatives_workspace",
                                                   "signature",
                                                   "replayable",
                                                   "alloc_peak",
                                                   "alternatives_alloc_peak"};
constexpr std::uint32_t kOpLists = 1U << kCreates | 1U << kReads | 1U << kWrites | 1U << kFrees |
                                   1U << kViews | 1U << kAlternativesNs |
                                   1U << kAlternativesWorkspace | 1U << kAlternativesAllocPeak;

enum List : std::size_t { kStorages, kOps };
constexpr std::array<JsonRows, 2> kRows{JsonRows{"storages", "storage", kStorageKeys, 0},
                                        JsonRows{"ops", "op", kOpKeys, kOpLists}};

constexpr std::uint64_t kMostTime = ~std::uint64_t{0} >> 1;
constexpr std::uint64_t kMostNumber = ~std::uint32_t{0};

/// The word of a role or a type, or the first of its kind where it is left out.
template <typename Word>
Word parse_word(const std::optional<Word>& known, std::string_view key, std::string_view text,
                std::string_view kind) {
  if (!known) throw UserError(fmt::format("\"{}\" is \"{}\", which is no {}", key, text, kind));
  return *known;
}

/// Appends each row of the document to the trace. The two rows being read are kept, so that their
/// lists and texts are allocated once.
class TraceTarget final : public JsonRowTarget {
 public:
  void on_member(std::size_t key, const JsonScalar& value) override {
    switch (key) {
      case kVersion:
        version_ = value.as_whole(kMembers[key]);
        if (version_ == 0 || version_ > kTraceVersion) {
          throw UserError(fmt::format("it has version {}; this Spillway reads versions 1 to {}",
                                      version_, kTraceVersion));
        }
        return;
      case kMachine:
        trace_.machine = value.as_text(kMembers[key]);
        return;
      case kFramework:
        trace_.framework = value.as_text(kMembers[key]);
        return;
      case kTimed:
        trace_.timed = value.as_flag(kMembers[key]);
        return;
      case kWorkspaceKnown:
      case kScratchKnown:
        trace_.workspace_known = value.as_flag(kMembers[key]);
        return;
      case kRunPeak:
        trace_.run_peak = Bytes{value.as_whole(kMembers[key])};
        return;
      default:
        trace_.run_floor = Bytes{value.as_whole(kMembers[key])};
        return;
    }
  }

  void on_row(std::size_t list) override {
    if (list == kStorages) {
      storage_ = {};
      id_ = ~std::uint64_t{0};
      return;
    }
    op_.name.clear();
    op_.duration_ns = 0;
    op_.flop.reset();
    op_.bytes_touched.reset();
    op_.thread = op_.stream = 0;
    op_.arithmetic = Arithmetic::kUnknown;
    op_.recomputable = false;
    op_.source.clear();
    op_.module.clear();
    op_.workspace = {};
    op_.signature = 0;
    for (auto* ids : {&op_.creates, &op_.reads, &op_.writes, &op_.frees, &op_.views}) ids->clear();
    op_.alternatives.clear();
    alternative_times_ = alternative_peaks_ = 0;
  }

  void on_field(std::size_t list, std::size_t key, const JsonScalar& value) override {
    if (list == kStorages) return on_storage_field(key, value);
    on_op_field(key, value);
  }

  void on_item(std::size_t /*list*/, std::size_t key, const JsonScalar& value) override {
    switch (key) {
      case kCreates:
        return op_.creates.push_back(id_of(key, value));
      case kReads:
        return op_.reads.push_back(id_of(key, value));
      case kWrites:
        return op_.writes.push_back(id_of(key, value));
      case kFrees:
        return op_.frees.push_back(id_of(key, value));
      case kViews:
        return op_.views.push_back(id_of(key, value));
      case kAlternativesNs:
        alternative(alternative_times_++).duration_ns =
            static_cast<TimeNs>(value.as_whole(kOpKeys[key], kMostTime));
        return;
      default:
        alternative(alternative_peaks_++).workspace = {value.as_whole(kOpKeys[key])};
    }
  }

  void on_row_end(std::size_t list, std::uint32_t seen) override {
    if (list == kStorages) {
      require(seen, kBytes, kStorageKeys);
      require(seen, kId, kStorageKeys);
      if (id_ != trace_.storages.size()) {
        throw UserError("\"id\" is not the storage's position in the list, counted from 0");
      }
      trace_.add(storage_);
      return;
    }
    if ((seen >> kNs & 1) == 0 && untimed_op_ == kNone) untimed_op_ = trace_.ops.size();
    if (alternative_times_ != alternative_peaks_) {
      throw UserError(fmt::format("\"{}\" has {} items, but \"{}\" has {}",
                                  kOpKeys[kAlternativesNs], alternative_times_,
                                  kOpKeys[kAlternativesWorkspace], alternative_peaks_));
    }
    trace_.add(op_);
  }

  Trace finish() {
    if (version_ == 0) {
      throw UserError(fmt::format("it has no \"{}\", so it is no trace", kMembers[kVersion]));
    }
    // Checked here, since "timed" may stand behind the ops.
    if (trace_.timed && untimed_op_ != kNone) {
      throw UserError(fmt::format("op {}: \"{}\" is missing", untimed_op_, kOpKeys[kNs]));
    }
    if (auto problem = validate(trace_)) throw UserError(*problem);
    return std::move(trace_);
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  static StorageId id_of(std::size_t key, const JsonScalar& value) {
    return StorageId{value.as_whole(kOpKeys[key])};
  }

  static void require(std::uint32_t seen, std::size_t key, std::span<const std::string_view> keys) {
    if ((seen >> key & 1) == 0) throw UserError(fmt::format("\"{}\" is missing", keys[key]));
  }

  OpAlternative& alternative(std::size_t row) {
    if (row >= op_.alternatives.size()) op_.alternatives.emplace_back();
    return op_.alternatives[row];
  }

  void on_storage_field(std::size_t key, const JsonScalar& value) {
    const std::string_view name = kStorageKeys[key];
    switch (key) {
      case kId:
        id_ = value.as_whole(name);
        return;
      case kBytes:
        storage_.bytes = {value.as_whole(name)};
        return;
      case kRole: {
        const std::string_view role = value.as_text(name);
        storage_.role = parse_word(parse_storage_role(role), name, role, "role");
        return;
      }
      case kPersistent:
        storage_.persistent = value.as_flag(name);
        return;
      case kStorageName:
        storage_.name = value.as_text(name);
        return;
      default:
        storage_.continues = StorageId{value.as_whole(name)};
    }
  }

  void on_op_field(std::size_t key, const JsonScalar& value) {
    const std::string_view name = kOpKeys[key];
    switch (key) {
      case kName:
        op_.name = value.as_text(name);
        return;
      case kNs:
        op_.duration_ns = static_cast<TimeNs>(value.as_whole(name, kMostTime));
        return;
      case kFlop:
        op_.flop = value.as_whole(name);
        return;
      case kTouched:
        op_.bytes_touched = Bytes{value.as_whole(name)};
        return;
      case kThread:
        op_.thread = static_cast<std::uint32_t>(value.as_whole(name, kMostNumber));
        return;
      case kStream:
        op_.stream = static_cast<std::uint32_t>(value.as_whole(name, kMostNumber));
        return;
      case kArithmetic: {
        const std::string_view type = value.as_text(name);
        op_.arithmetic = parse_word(parse_arithmetic(type), name, type, "type of arithmetic");
        return;
      }
      case kRecomputable:
      case kReplayable:
        op_.recomputable = value.as_flag(name);
        return;
      case kSource:
        op_.source = value.as_text(name);
        return;
      case kModule:
        op_.module = value.as_text(name);
        return;
      case kSignature:
        op_.signature = value.as_hex(name);
        return;
      default:
        op_.workspace = {value.as_whole(name)};
    }
  }

  Trace trace_;
  TraceStorage storage_;
  TraceOp op_;
  std::uint64_t version_ = 0;
  std::uint64_t id_ = 0;
  std::size_t alternative_times_ = 0;
  std::size_t alternative_peaks_ = 0;
  std::size_t untimed_op_ = kNone;  // the first
};

/// Writes JSON. Texts that stand in many rows are quoted once.
class TraceWriter {
 public:
  explicit TraceWriter(const Trace& trace)
      : trace_(trace),
        op_names_(quoted_texts(trace.ops.name)),
        sources_(quoted_texts(trace.ops.source)),
        modules_(quoted_texts(trace.ops.module)),
        storage_names_(quoted_texts(trace.storages.name)) {}

  std::string text() && {
    format(R"({{
"{}":{},
"machine":{},
"framework":{},
)",
           kMembers[kVersion], kTraceVersion, json_text(trace_.machine),
           json_text(trace_.framework));
    if (!trace_.timed) text_ += "\"timed\":false,\n";
    if (!trace_.workspace_known) text_ += "\"workspace_known\":false,\n";
    if (trace_.run_peak) format("\"{}\":{},\n", kMembers[kRunPeak], trace_.run_peak->count);
    if (trace_.run_floor) format("\"{}\":{},\n", kMembers[kRunFloor], trace_.run_floor->count);
    text_ += "\"storages\":[";
    for (std::size_t row = 0; row < trace_.storages.size(); ++row) append_storage(row);
    text_ += "\n],\n\"ops\":[";
    for (std::size_t row = 0; row < trace_.ops.size(); ++row) append_op(row);
    text_ += "\n]\n}\n";
    return std::move(text_);
  }

 private:
  static std::vector<std::string> quoted_texts(const TextColumn& column) {
    std::vector<std::string> result(column.distinct());
    for (std::uint32_t id = 0; id < result.size(); ++id) result[id] = json_text(column.text(id));
    return result;
  }

  template <typename... Values>
  void format(fmt::format_string<Values...> pattern, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), pattern, std::forward<Values>(values)...);
  }

  void append_storage(std::size_t row) {
    const TraceStorages& storages = trace_.storages;
    format(R"({}{{"id":{},"bytes":{},"role":"{}")", row == 0 ? "\n" : ",\n", row,
           storages.bytes[row].count, to_string(storages.role[row]));
    if (storages.persistent[row] != 0) text_ += R"(,"persistent":true)";
    append_text("name", storages.name, row, storage_names_);
    if (storages.continues[row] != kNoStorage) {
      format(R"(,"continues":{})", to_value(storages.continues[row]));
    }
    text_ += '}';
  }

  void append_op(std::size_t row) {
    const TraceOps& ops = trace_.ops;
    format(R"({}{{"name":{})", row == 0 ? "\n" : ",\n", op_names_[ops.name.id(row)]);
    if (trace_.timed) format(R"(,"ns":{})", ops.duration_ns[row]);
    if (ops.flop[row]) format(R"(,"flop":{})", *ops.flop[row]);
    if (ops.bytes_touched[row]) format(R"(,"bytes":{})", ops.bytes_touched[row]->count);
    if (ops.thread[row] != 0) format(R"(,"thread":{})", ops.thread[row]);
    if (ops.stream[row] != 0) format(R"(,"stream":{})", ops.stream[row]);
    if (ops.arithmetic[row] != Arithmetic::kUnknown) {
      format(R"(,"arithmetic":"{}")", to_string(ops.arithmetic[row]));
    }
    if (ops.recomputable[row] != 0) text_ += R"(,"recomputable":true)";
    append_text("source", ops.source, row, sources_);
    append_text("module", ops.module, row, modules_);
    if (ops.workspace[row].count != 0) format(R"(,"workspace":{})", ops.workspace[row].count);
    if (ops.signature[row] != 0) format(R"(,"signature":"{:016x}")", ops.signature[row]);
    append_ids("creates", ops.creates[OpIndex{row}]);
    append_ids("reads", ops.reads[OpIndex{row}]);
    append_ids("writes", ops.writes[OpIndex{row}]);
    append_ids("frees", ops.frees[OpIndex{row}]);
    append_ids("views", ops.views[OpIndex{row}]);
    append_alternatives(ops.alternatives[OpIndex{row}]);
    text_ += '}';
  }

  void append_text(std::string_view key, const TextColumn& column, std::size_t row,
                   const std::vector<std::string>& quoted) {
    if (!column[row].empty()) format(R"(,"{}":{})", key, quoted[column.id(row)]);
  }

  void append_ids(std::string_view key, std::span<const StorageId> ids) {
    if (ids.empty()) return;
    format(R"(,"{}":[)", key);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      format("{}{}", i == 0 ? "" : ",", to_value(ids[i]));
    }
    text_ += ']';
  }

  void append_alternatives(std::span<const OpAlternative> alternatives) {
    if (alternatives.empty()) return;
    std::vector<TimeNs> times;
    std::vector<std::uint64_t> peaks;
    for (const OpAlternative& alternative : alternatives) {
      times.push_back(alternative.duration_ns);
      peaks.push_back(alternative.workspace.count);
    }
    format(R"(,"{}":[{}],"{}":[{}])", kOpKeys[kAlternativesNs], fmt::join(times, ","),
           kOpKeys[kAlternativesWorkspace], fmt::join(peaks, ","));
  }

  const Trace& trace_;
  std::vector<std::string> op_names_;
  std::vector<std::string> sources_;
  std::vector<std::string> modules_;
  std::vector<std::string> storage_names_;
  std::string text_;
};

}  // namespace

std::string format_trace(const Trace& trace) {
  const auto problem = validate(trace);
  SPILLWAY_CHECK(!problem, *problem);
  return TraceWriter(trace).text();
}

Trace parse_trace(std::string contents, std::string_view what) {
  try {
    TraceTarget target;
    parse_json_rows(decompressed(std::move(contents), kMostTraceText), kMembers, kRows, target);
    return target.finish();
  } catch (const OtherKindOfFile& other) {
    throw UserError(fmt::format("{} is a {}, not a trace.", what, other.what()));
  } catch (const UserError& error) {
    throw UserError(
        fmt::format("trace {}: {}. Record it again, or check that the file was copied whole.", what,
                    error.what()));
  }
}

void write_trace(const Trace& trace, const std::string& path) {
  const std::string text = format_trace(trace);
  write_file(path, "trace", ends_in_zst(path) ? compressed(text) : text);
}

Trace read_trace(const std::string& path) {
  return parse_trace(read_file(path, "trace", kMostTraceText), path);
}

}  // namespace spillway
