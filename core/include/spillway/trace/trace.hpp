// SPDX-License-Identifier: Apache-2.0
// The record of one training step: what each op read, wrote, created and freed, in the order the
// program ran them.
//
//   op          0        1        2        3
//   weight      r        .        r        w       persistent: alive before, within and after
//   input       r        .        .        f       alive before, freed within
//   hidden      c w      r        r f              created and freed within
//   gradient                      c w      r       created within, alive after
//
// Within one op, creates come first, then reads, writes and workspace, then frees. So a
// storage may be used by the op that creates it and by the op that frees it, and by none outside:
// its life is the half-open range [create, free + 1) of ops. The next step's storages have ids of
// their own: what is alive after this step and freed in the next stands here twice, once without a
// create.
//
// A plain value, stored as columns: row `i` of every column of `ops` is op `i`; a storage's id is
// its row in `storages`. No pointers, so a trace can be copied, compared, saved and sent. Distinct
// objects may be used from distinct threads. Units: bytes and nanoseconds.
//
// The ideas of a step as a list of ops with storages, and of roles, follow ZeRO (Rajbhandari et al.
// 2020) and the liveness records of SuperNeurons (Wang et al. 2018).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/base/text_column.hpp"
#include "spillway/machine/arithmetic.hpp"

namespace spillway {

/// The purpose of a storage.
enum class StorageRole : std::uint8_t {
  kUnknown,
  kParameter,
  kGradient,
  kOptimizerState,
  kActivation,
  kInput,
  kWorkspace,
};

inline constexpr std::size_t kStorageRoleCount = 7;

/// `parameter`, `optimizer_state`, ...
std::string_view to_string(StorageRole role);
/// Returns nothing for a word that is no role.
std::optional<StorageRole> parse_storage_role(std::string_view text);

/// No storage, where one may be named.
inline constexpr StorageId kNoStorage{~std::uint64_t{0}};

/// A list of storages for every op: row `i` is `items[offsets[i], offsets[i + 1])`.
struct StorageLists {
  std::vector<std::uint64_t> offsets{0};
  std::vector<StorageId> items;

  [[nodiscard]] std::size_t size() const { return offsets.size() - 1; }
  [[nodiscard]] std::span<const StorageId> operator[](OpIndex op) const {
    const std::uint64_t first = offsets[to_value(op)];
    return std::span(items).subspan(first, offsets[to_value(op) + 1] - first);
  }
  void append(std::span<const StorageId> row);

  bool operator==(const StorageLists&) const = default;
};

/// Another way to run the same op with the same result, such as a convolution's other algorithm.
struct OpAlternative {
  TimeNs duration_ns = 0;
  Bytes workspace{};  ///< as the column of that name

  bool operator==(const OpAlternative&) const = default;
};

/// The alternatives of every op beside the one recorded, in rows as StorageLists has them.
struct AlternativeLists {
  std::vector<std::uint64_t> offsets{0};
  std::vector<OpAlternative> items;

  [[nodiscard]] std::size_t size() const { return offsets.size() - 1; }
  [[nodiscard]] std::span<const OpAlternative> operator[](OpIndex op) const {
    const std::uint64_t first = offsets[to_value(op)];
    return std::span(items).subspan(first, offsets[to_value(op) + 1] - first);
  }
  void append(std::span<const OpAlternative> row);

  bool operator==(const AlternativeLists&) const = default;
};

struct TraceStorages {
  std::vector<Bytes> bytes;
  std::vector<StorageRole> role;
  std::vector<std::uint8_t> persistent;  ///< 1: alive before, within and after the step
  TextColumn name;                       ///< may be empty
  /// A storage that is created and not freed may be another one in the next step: this is its id
  /// there, alive before and freed, of the same size. kNoStorage where it is none.
  std::vector<StorageId> continues;

  [[nodiscard]] std::size_t size() const { return bytes.size(); }
  bool operator==(const TraceStorages&) const = default;
};

struct TraceOps {
  TextColumn name;
  std::vector<TimeNs> duration_ns;
  std::vector<std::optional<std::uint64_t>> flop;
  std::vector<std::optional<Bytes>> bytes_touched;  ///< read plus written by the op's kernels
  std::vector<std::uint32_t> thread;                ///< numbered from 0 in order of appearance
  std::vector<std::uint32_t> stream;                ///< of the device; numbered likewise
  std::vector<Arithmetic> arithmetic;
  /// 1: a pure function of what it reads (no random state, nothing in place, nothing hidden), so
  /// that running it again yields the same bytes. Such an op writes only what it creates.
  std::vector<std::uint8_t> recomputable;
  TextColumn source;             ///< `train.py:12`; may be empty
  TextColumn module;             ///< `layer1.0.conv2`; may be empty
  std::vector<Bytes> workspace;  ///< most workspace held within the op beyond its creates
  /// The recorder's hash of what tells ops apart when they run (of PyTorch: name and sizes of
  /// inputs), by which a plan finds its place in a run; 0 where it is not known.
  std::vector<std::uint64_t> signature;
  AlternativeLists alternatives;
  StorageLists reads;  ///< no storage twice in one row, here and below
  StorageLists writes;
  StorageLists creates;
  StorageLists frees;
  /// The op's results are views of these: other shapes of bytes that it did not write.
  StorageLists views;

  [[nodiscard]] std::size_t size() const { return name.size(); }
  bool operator==(const TraceOps&) const = default;
};

/// One storage, as it is appended.
struct TraceStorage {
  Bytes bytes{};
  StorageRole role = StorageRole::kUnknown;
  bool persistent = false;
  std::string name{};
  StorageId continues = kNoStorage;
};

/// One op, as it is appended.
struct TraceOp {
  std::string name{};
  TimeNs duration_ns = 0;
  std::optional<std::uint64_t> flop{};
  std::optional<Bytes> bytes_touched{};
  std::uint32_t thread = 0;
  std::uint32_t stream = 0;
  Arithmetic arithmetic = Arithmetic::kUnknown;
  bool recomputable = false;
  std::string source{};
  std::string module{};
  Bytes workspace{};
  std::uint64_t signature = 0;
  std::vector<OpAlternative> alternatives{};
  std::vector<StorageId> reads{};
  std::vector<StorageId> writes{};
  std::vector<StorageId> creates{};
  std::vector<StorageId> frees{};
  std::vector<StorageId> views{};
};

struct Trace {
  std::string machine;          ///< where it was recorded, for people
  std::string framework;        ///< by what, e.g. `torch 2.12.0`
  bool timed = true;            ///< false: recorded without running, so that every duration is 0
  bool workspace_known = true;  ///< false: recorded without kernels, so that workspace lacks theirs
  /// Peak and floor of the whole run, as its statistics have them; nothing where none was measured.
  std::optional<Bytes> run_peak{};
  std::optional<Bytes> run_floor{};
  TraceStorages storages;
  TraceOps ops;

  StorageId add(const TraceStorage& storage);
  OpIndex add(const TraceOp& op);

  bool operator==(const Trace&) const = default;
};

/// The first thing wrong with the trace, with its position ("op 3 (aten::add): reads storage 9,
/// ..."); nothing where every promise above holds. Never throws on a malformed trace.
std::optional<std::string> validate(const Trace& trace);

/// A number that two traces share if they have the same ops and storages: all but durations, names
/// and other words. A plan made for one fits the other.
std::uint64_t structure_hash(const Trace& trace);

/// The column of signatures; empty where no op has one.
std::vector<std::uint64_t> known_signatures(const Trace& trace);

/// Most bytes alive at once, workspace included. The trace must be valid.
Bytes peak_bytes(const Trace& trace);

}  // namespace spillway
