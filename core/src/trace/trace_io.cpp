// SPDX-License-Identifier: Apache-2.0
#include "spillway/trace/trace_io.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway {
namespace {

using nlohmann::json;

constexpr std::string_view kVersionKey = "spillway_trace";
constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd";
// Level 9 halves the size of level 3 on traces, whose lines are alike, at no cost that is felt.
constexpr int kCompressionLevel = 9;
constexpr std::size_t kChunk = std::size_t{1} << 18;
// Far above what one op can touch, and small enough that its parsed row is of no weight.
constexpr std::size_t kMostRowItems = std::size_t{1} << 20;

constexpr std::array<std::string_view, 7> kMembers{
    kVersionKey, "machine", "framework", "timed", "scratch_known", "storages", "ops"};
constexpr std::array<std::string_view, 6> kStorageKeys{"id",         "bytes", "role",
                                                       "persistent", "name",  "continues"};
constexpr std::array<std::string_view, 16> kOpKeys{
    "name",       "ns",         "flop",    "bytes",       "thread",     "source",
    "reads",      "writes",     "creates", "frees",       "alloc_peak", "stream",
    "arithmetic", "replayable", "module",  "alternatives"};

[[noreturn]] void throw_bad_trace(std::string_view what, const std::string& problem) {
  throw UserError(fmt::format(
      "trace {}: {}. Record it again, or check that the file was copied whole.", what, problem));
}

/// The members of one object, by name and kind.
class FieldReader {
 public:
  FieldReader(const json& object, std::string position)
      : object_(object), position_(std::move(position)) {}

  [[nodiscard]] std::uint64_t number(const char* key, std::uint64_t most) const {
    const json* const value = find(key);
    if (value == nullptr) fail(key, "is missing");
    return number_of(*value, key, most);
  }
  [[nodiscard]] std::uint64_t number_or(const char* key, std::uint64_t fallback,
                                        std::uint64_t most) const {
    const json* const value = find(key);
    return value == nullptr ? fallback : number_of(*value, key, most);
  }
  [[nodiscard]] std::optional<std::uint64_t> optional_number(const char* key,
                                                             std::uint64_t most) const {
    const json* const value = find(key);
    return value == nullptr ? std::nullopt : std::optional(number_of(*value, key, most));
  }
  [[nodiscard]] std::string text_or_empty(const char* key) const {
    const json* const value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) fail(key, "is not a text");
    return value->get<std::string>();
  }
  [[nodiscard]] bool flag(const char* key) const {
    const json* const value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) fail(key, "is neither true nor false");
    return value->get<bool>();
  }
  [[nodiscard]] std::vector<StorageId> ids(const char* key) const {
    std::vector<StorageId> result;
    const json* const value = find(key);
    if (value == nullptr) return result;
    if (!value->is_array()) fail(key, "is not a list");
    result.reserve(value->size());
    for (const json& item : *value) result.push_back(StorageId{number_of(item, key, kMost)});
    return result;
  }
  [[noreturn]] void fail(std::string_view key, std::string_view problem) const {
    throw UserError(fmt::format("{}: \"{}\" {}", position_, key, problem));
  }

  static constexpr std::uint64_t kMost = ~std::uint64_t{0};

 private:
  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  std::uint64_t number_of(const json& value, const char* key, std::uint64_t most) const {
    // Negative and fractional numbers, and those above 2^64, have other types.
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
      fail(key, fmt::format("is {}, not a whole number from 0 to {}", shown(value), most));
    }
    return value.get<std::uint64_t>();
  }
  static std::string shown(const json& value) {
    return value.is_number() ? value.dump() : std::string(value.type_name());
  }

  const json& object_;
  std::string position_;
};

/// Builds a trace from the events of the JSON parser. Each op and storage is taken over when its
/// object ends and dropped from the document, which so never grows beyond one of them.
class TraceBuilder {
 public:
  /// An answer of false drops the value from the document.
  bool on_event(int depth, json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    switch (depth) {
      case 0:
        require(event == Event::object_start || event == Event::object_end, "it is not an object");
        return true;
      case 1:
        return on_member(event, parsed);
      case 2:
        require(event == Event::object_start || event == Event::object_end,
                "an entry is not an object");
        if (event == Event::object_start) start_entry();
        if (event == Event::object_end) take_entry(parsed);
        return event != Event::object_end;
      case 3:
        require(event != Event::object_start, "an entry holds an object");
        if (event == Event::key) start_field(parsed.get_ref<const std::string&>());
        return true;
      default:
        require(event == Event::value, "lists are nested");
        require(++items_ <= kMostRowItems, "an entry lists too many storages");
        return true;
    }
  }

  Trace finish() {
    if (!has_version_)
      throw UserError(fmt::format("it has no \"{}\", so it is no trace", kVersionKey));
    if (const auto problem = validate(trace_)) throw UserError(*problem);
    return std::move(trace_);
  }

  /// Where in the trace the parser stands.
  [[nodiscard]] std::string position() const {
    if (member_ == "storages") return fmt::format("storage {}", trace_.storages.size());
    if (member_ == "ops") return fmt::format("op {}", trace_.ops.size());
    return member_.empty() ? "the beginning" : fmt::format("\"{}\"", member_);
  }

 private:
  bool on_member(json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    const bool is_list = member_ == "storages" || member_ == "ops";
    switch (event) {
      case Event::key:
        start_member(parsed.get<std::string>());
        return true;
      case Event::value:
        require(!is_list, "is not a list");
        take_value(parsed);
        return true;
      case Event::array_start:
        require(is_list, "is a list");
        return true;
      case Event::array_end:
        return true;
      default:
        fail("is an object");
    }
  }

  void start_member(std::string name) {
    note_key(name, kMembers, members_seen_);
    member_ = std::move(name);
  }

  void start_entry() {
    items_ = 0;
    fields_seen_ = {};
  }

  void start_field(const std::string& name) {
    note_key(name, member_ == "ops" ? std::span<const std::string_view>(kOpKeys) : kStorageKeys,
             fields_seen_);
  }

  using Seen = std::array<bool, kOpKeys.size()>;
  static_assert(kOpKeys.size() >= kMembers.size() && kOpKeys.size() >= kStorageKeys.size());

  // An unknown key is refused since dropping it could drop a dependency ("read" for "reads").
  void note_key(const std::string& name, std::span<const std::string_view> keys, Seen& seen) const {
    const auto known = std::find(keys.begin(), keys.end(), name);
    if (known == keys.end()) fail(fmt::format("\"{}\" is not known", name));
    const bool twice = std::exchange(seen[static_cast<std::size_t>(known - keys.begin())], true);
    if (twice) fail(fmt::format("\"{}\" stands twice", name));
  }

  void take_value(const json& value) {
    if (member_ == kVersionKey) {
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kTraceVersion ||
          value.get<std::uint64_t>() == 0) {
        throw UserError(fmt::format("it has version {}; this Spillway reads versions 1 to {}",
                                    value.is_number() ? value.dump() : value.type_name(),
                                    kTraceVersion));
      }
      has_version_ = true;
      return;
    }
    if (member_ == "timed" || member_ == "scratch_known") {
      require(value.is_boolean(), "is neither true nor false");
      (member_ == "timed" ? trace_.timed : trace_.scratch_known) = value.get<bool>();
      return;
    }
    require(value.is_string(), "is not a text");
    (member_ == "machine" ? trace_.machine : trace_.framework) = value.get<std::string>();
  }

  void take_entry(const json& entry) {
    const FieldReader fields(entry, position());
    if (member_ == "storages") {
      take_storage(fields);
    } else {
      take_op(fields);
    }
  }

  void take_storage(const FieldReader& fields) {
    if (fields.number("id", FieldReader::kMost) != trace_.storages.size()) {
      fields.fail("id", "is not the storage's position in the list, counted from 0");
    }
    TraceStorage storage;
    storage.bytes = {fields.number("bytes", FieldReader::kMost)};
    const std::string role = fields.text_or_empty("role");
    const auto known = parse_storage_role(role.empty() ? "unknown" : role);
    if (!known) fields.fail("role", fmt::format("is \"{}\", which is no role", role));
    storage.role = *known;
    storage.persistent = fields.flag("persistent");
    storage.name = fields.text_or_empty("name");
    storage.continues =
        StorageId{fields.number_or("continues", to_value(kNoStorage), FieldReader::kMost)};
    trace_.add(std::move(storage));
  }

  void take_op(const FieldReader& fields) {
    constexpr std::uint64_t kMostTime = ~std::uint64_t{0} >> 1;
    TraceOp op;
    op.name = fields.text_or_empty("name");
    op.duration_ns = static_cast<TimeNs>(fields.number("ns", kMostTime));
    op.flop = fields.optional_number("flop", FieldReader::kMost);
    if (const auto bytes = fields.optional_number("bytes", FieldReader::kMost)) {
      op.bytes_touched = Bytes{*bytes};
    }
    op.thread = static_cast<std::uint32_t>(fields.number_or("thread", 0, ~std::uint32_t{0}));
    op.stream = static_cast<std::uint32_t>(fields.number_or("stream", 0, ~std::uint32_t{0}));
    const std::string arithmetic = fields.text_or_empty("arithmetic");
    const auto known = parse_arithmetic(arithmetic.empty() ? "unknown" : arithmetic);
    if (!known) fields.fail("arithmetic", fmt::format("is \"{}\", which is no type", arithmetic));
    op.arithmetic = *known;
    op.replayable = fields.flag("replayable");
    op.source = fields.text_or_empty("source");
    op.module = fields.text_or_empty("module");
    op.alloc_peak = {fields.number_or("alloc_peak", 0, FieldReader::kMost)};
    op.creates = fields.ids("creates");
    op.reads = fields.ids("reads");
    op.writes = fields.ids("writes");
    op.frees = fields.ids("frees");
    trace_.add(std::move(op));
  }

  void require(bool condition, std::string_view problem) const {
    if (!condition) fail(problem);
  }
  [[noreturn]] void fail(std::string_view problem) const {
    throw UserError(fmt::format("{}: {}", position(), problem));
  }

  Trace trace_;
  std::string member_;
  Seen members_seen_{};
  Seen fields_seen_{};
  bool has_version_ = false;
  std::size_t items_ = 0;
};

Trace parse_json(std::string_view text, std::string_view what) {
  TraceBuilder builder;
  try {
    const auto document = json::parse(
        text.begin(), text.end(), [&builder](int depth, json::parse_event_t event, json& parsed) {
          return builder.on_event(depth, event, parsed);
        });
    return builder.finish();
  } catch (const UserError& error) {
    throw_bad_trace(what, error.what());
  } catch (const json::parse_error& error) {
    throw_bad_trace(what, fmt::format("{}: at byte {} of {} the text is not JSON",
                                      builder.position(), error.byte, text.size()));
  } catch (const json::exception& error) {
    throw_bad_trace(what, fmt::format("{}: {}", builder.position(), error.what()));
  }
}

std::string json_text(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

void append_ids(std::string& line, std::string_view key, std::span<const StorageId> ids) {
  if (ids.empty()) return;
  fmt::format_to(std::back_inserter(line), ",\"{}\":[", key);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    fmt::format_to(std::back_inserter(line), "{}{}", i == 0 ? "" : ",", to_value(ids[i]));
  }
  line += ']';
}

void append_storage(std::string& text, const TraceStorages& storages, std::size_t row) {
  fmt::format_to(std::back_inserter(text), R"({{"id":{},"bytes":{},"role":"{}")", row,
                 storages.bytes[row].count, to_string(storages.role[row]));
  if (storages.persistent[row] != 0) text += R"(,"persistent":true)";
  if (!storages.name[row].empty()) text += R"(,"name":)" + json_text(storages.name[row]);
  if (storages.continues[row] != kNoStorage) {
    fmt::format_to(std::back_inserter(text), R"(,"continues":{})",
                   to_value(storages.continues[row]));
  }
  text += '}';
}

void append_op(std::string& text, const TraceOps& ops, std::size_t row) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, R"({{"name":{},"ns":{})", json_text(ops.name[row]), ops.duration_ns[row]);
  if (ops.flop[row]) fmt::format_to(out, R"(,"flop":{})", *ops.flop[row]);
  if (ops.bytes_touched[row]) fmt::format_to(out, R"(,"bytes":{})", ops.bytes_touched[row]->count);
  if (ops.thread[row] != 0) fmt::format_to(out, R"(,"thread":{})", ops.thread[row]);
  if (ops.stream[row] != 0) fmt::format_to(out, R"(,"stream":{})", ops.stream[row]);
  if (ops.arithmetic[row] != Arithmetic::kUnknown) {
    fmt::format_to(out, R"(,"arithmetic":"{}")", to_string(ops.arithmetic[row]));
  }
  if (ops.replayable[row] != 0) text += R"(,"replayable":true)";
  if (!ops.source[row].empty()) text += R"(,"source":)" + json_text(ops.source[row]);
  if (!ops.module[row].empty()) text += R"(,"module":)" + json_text(ops.module[row]);
  if (ops.alloc_peak[row].count != 0) {
    fmt::format_to(out, R"(,"alloc_peak":{})", ops.alloc_peak[row].count);
  }
  append_ids(text, "creates", ops.creates[OpIndex{row}]);
  append_ids(text, "reads", ops.reads[OpIndex{row}]);
  append_ids(text, "writes", ops.writes[OpIndex{row}]);
  append_ids(text, "frees", ops.frees[OpIndex{row}]);
  text += '}';
}

std::string compressed(const std::string& text) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     &ZSTD_freeCCtx);
  SPILLWAY_CHECK(context != nullptr, "no memory for zstd");
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kCompressionLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string result(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size =
      ZSTD_compress2(context.get(), result.data(), result.size(), text.data(), text.size());
  SPILLWAY_CHECK(ZSTD_isError(size) == 0, ZSTD_getErrorName(size));
  result.resize(size);
  return result;
}

/// Grows with what is really there: the size that a frame claims is not believed.
std::string decompressed(std::string_view contents, std::string_view what) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     &ZSTD_freeDCtx);
  SPILLWAY_CHECK(context != nullptr, "no memory for zstd");
  std::string text;
  std::vector<char> chunk(kChunk);
  ZSTD_inBuffer in{contents.data(), contents.size(), 0};
  std::size_t hint = 1;
  // A full output chunk may leave more behind, even when the input is used up.
  for (bool more = true; in.pos < in.size || (more && hint != 0);) {
    ZSTD_outBuffer out{chunk.data(), chunk.size(), 0};
    hint = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(hint) != 0) {
      throw_bad_trace(what, fmt::format("at byte {} of {} the zstd data is damaged ({})", in.pos,
                                        in.size, ZSTD_getErrorName(hint)));
    }
    text.append(chunk.data(), out.pos);
    more = out.pos == out.size;
    if (Bytes{text.size()} > kMostTraceText) {
      throw_bad_trace(what, fmt::format("it unpacks to more than {}", to_string(kMostTraceText)));
    }
  }
  if (hint != 0) {
    throw_bad_trace(what, fmt::format("the zstd data is cut off after {} bytes", contents.size()));
  }
  return text;
}

[[noreturn]] void throw_file_error(const char* verb, const std::string& path) {
  throw UserError(fmt::format("trace {}: it cannot be {}: {}.", path, verb, std::strerror(errno)));
}

/// An open file that closes itself. close() is for writers, who must hear of a late error.
class File {
 public:
  File(const std::string& path, int flags)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  [[nodiscard]] ssize_t read(char* memory, std::size_t size) const {
    for (;;) {
      const ssize_t got = ::read(number_, memory, size);
      if (got >= 0 || errno != EINTR) return got;
    }
  }
  [[nodiscard]] bool write_all(std::string_view data) const {
    while (!data.empty()) {
      const ssize_t put = ::write(number_, data.data(), data.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return false;
      data.remove_prefix(static_cast<std::size_t>(put));
    }
    return true;
  }
  [[nodiscard]] bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

bool write_file(const std::string& path, std::string_view data) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  return file.is_open() && file.write_all(data) && file.close();
}

bool is_special(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

bool ends_in_zst(std::string_view path) {
  constexpr std::string_view kEnding = ".zst";
  return path.size() >= kEnding.size() && path.substr(path.size() - kEnding.size()) == kEnding;
}

}  // namespace

std::string format_trace(const Trace& trace) {
  const auto problem = validate(trace);
  SPILLWAY_CHECK(!problem, *problem);
  std::string text =
      fmt::format("{{\n\"{}\":{},\n\"machine\":{},\n\"framework\":{},\n\"storages\":[", kVersionKey,
                  kTraceVersion, json_text(trace.machine), json_text(trace.framework));
  for (std::size_t row = 0; row < trace.storages.size(); ++row) {
    text += row == 0 ? "\n" : ",\n";
    append_storage(text, trace.storages, row);
  }
  text += "\n],\n\"ops\":[";
  for (std::size_t row = 0; row < trace.ops.size(); ++row) {
    text += row == 0 ? "\n" : ",\n";
    append_op(text, trace.ops, row);
  }
  return text + "\n]\n}\n";
}

Trace parse_trace(std::string_view contents, std::string_view what) {
  if (contents.substr(0, kZstdMagic.size()) == kZstdMagic) {
    return parse_json(decompressed(contents, what), what);
  }
  return parse_json(contents, what);
}

void write_trace(const Trace& trace, const std::string& path) {
  std::string data = format_trace(trace);
  if (ends_in_zst(path)) data = compressed(data);
  if (is_special(path)) {
    if (!write_file(path, data)) throw_file_error("written", path);
    return;
  }
  const std::string partial = fmt::format("{}.{}.partial", path, ::getpid());
  if (!write_file(partial, data) || ::rename(partial.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(partial.c_str());
    errno = error;
    throw_file_error("written", path);
  }
}

Trace read_trace(const std::string& path) {
  const File file(path, O_RDONLY);
  if (!file.is_open()) throw_file_error("read", path);
  std::string contents;
  std::vector<char> chunk(kChunk);
  for (;;) {
    const ssize_t got = file.read(chunk.data(), chunk.size());
    if (got < 0) throw_file_error("read", path);
    if (got == 0) return parse_trace(contents, path);
    contents.append(chunk.data(), static_cast<std::size_t>(got));
    if (Bytes{contents.size()} > kMostTraceText) {
      throw_bad_trace(path, fmt::format("it is longer than {}", to_string(kMostTraceText)));
    }
  }
}

}  // namespace spillway
