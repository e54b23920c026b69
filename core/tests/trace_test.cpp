// SPDX-License-Identifier: Apache-2.0
#include "spillway/trace/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <random>
#include <sstream>

#include "documented_example.hpp"
#include "spillway/base/error.hpp"
#include "spillway/trace/trace_io.hpp"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr StorageId kWeight{0};
constexpr StorageId kInput{1};
constexpr StorageId kHidden{2};
constexpr StorageId kGradient{3};
constexpr StorageId kScratch{4};

// op           0 addmm  1 relu_  2 backward  3 update      alive while the op runs
// weight  100  r        .        r           r w           persistent
// input    10  r        .        f           -             alive before
// hidden    8  c w      r w      r f         -
// gradient 50  -        -        c w         r             alive after
// workspace 1  -        c f      -           -
//              118      119      168 + 7     150
Trace small_step() {
  Trace trace{.machine = "test bench", .framework = "none 1.0", .storages = {}, .ops = {}};
  trace.add(TraceStorage{{100}, StorageRole::kParameter, true, "weight"});
  trace.add(TraceStorage{{10}, StorageRole::kInput, false, ""});
  trace.add(TraceStorage{{8}, StorageRole::kActivation, false, "hidden \"1\"\n\xc3\xa4"});
  trace.add(TraceStorage{{50}, StorageRole::kGradient, false, ""});
  trace.add(TraceStorage{{1}, StorageRole::kWorkspace, false, ""});
  trace.add(TraceOp{.name = "aten::addmm",
                    .duration_ns = 1200,
                    .flop = 4000,
                    .bytes_touched = Bytes{118},
                    .source = "train.py:12",
                    .reads = {kWeight, kInput},
                    .writes = {kHidden},
                    .creates = {kHidden}});
  trace.add(TraceOp{.name = "aten::relu_",
                    .thread = 1,
                    .reads = {kHidden},
                    .writes = {kHidden},
                    .creates = {kScratch},
                    .frees = {kScratch}});
  trace.add(TraceOp{.name = "aten::mm",
                    .duration_ns = 1700,
                    .flop = 0,
                    .workspace = {7},
                    .reads = {kWeight, kHidden},
                    .writes = {kGradient},
                    .creates = {kGradient},
                    .frees = {kInput, kHidden}});
  trace.add(TraceOp{.name = "aten::add_", .reads = {kWeight, kGradient}, .writes = {kWeight}});
  return trace;
}

std::string problem_after(const std::function<void(Trace&)>& change) {
  Trace trace = small_step();
  change(trace);
  return validate(trace).value_or("valid");
}

TEST(TraceTest, AddingReturnsPositions) {
  Trace trace = small_step();
  EXPECT_EQ(trace.add(TraceStorage{}), StorageId{5});
  EXPECT_EQ(trace.add(TraceOp{}), OpIndex{4});
  EXPECT_THAT(trace.ops.reads[OpIndex{2}], ElementsAre(kWeight, kHidden));
  EXPECT_THAT(trace.ops.frees[OpIndex{0}], ElementsAre());
  EXPECT_EQ(trace.ops.frees.size(), 5U);
}

TEST(TraceTest, RolesHaveWords) {
  for (std::size_t i = 0; i < kStorageRoleCount; ++i) {
    const auto role = static_cast<StorageRole>(i);
    EXPECT_EQ(parse_storage_role(to_string(role)), role);
  }
  EXPECT_EQ(to_string(StorageRole::kOptimizerState), "optimizer_state");
  EXPECT_EQ(parse_storage_role("Parameter"), std::nullopt);
}

TEST(TracePeakTest, CountsWorkspaceAndWhatAnOpCreatesAndFrees) {
  EXPECT_EQ(validate(small_step()), std::nullopt);
  EXPECT_EQ(peak_bytes(small_step()), Bytes{175});
  Trace without_workspace = small_step();
  without_workspace.ops.workspace[2] = {};
  EXPECT_EQ(peak_bytes(without_workspace), Bytes{168});
  EXPECT_EQ(peak_bytes(Trace{}), Bytes{0});
}

TEST(TracePeakTest, IsAtTheStartWhereMuchIsFreedFirst) {
  Trace trace;
  trace.add(TraceStorage{{100}, StorageRole::kGradient, false, ""});
  EXPECT_THAT(validate(trace), testing::Optional(HasSubstr("storage 0")));
  trace.add(TraceOp{.name = "zero_grad", .frees = {StorageId{0}}});
  EXPECT_EQ(validate(trace), std::nullopt);
  EXPECT_EQ(peak_bytes(trace), Bytes{100});
}

TEST(TraceValidateTest, RefusesLivesThatDoNotAddUp) {
  const auto add = [](const TraceOp& op) { return [op](Trace& trace) { trace.add(op); }; };
  EXPECT_THAT(problem_after(add({.name = "x", .reads = {StorageId{5}}})),
              HasSubstr("op 4 (x): reads storage 5, but there are 5"));
  EXPECT_THAT(problem_after(add({.name = "x", .reads = {kHidden}})),
              HasSubstr("reads storage 2, which was freed before"));
  EXPECT_THAT(problem_after(add({.name = "x", .frees = {kHidden}})),
              HasSubstr("frees storage 2, which was freed before"));
  EXPECT_THAT(problem_after(add({.name = "x", .frees = {kGradient, kGradient}})),
              HasSubstr("frees storage 3, and does so twice"));
  EXPECT_THAT(problem_after(add({.name = "x", .reads = {kWeight, kGradient, kWeight}})),
              HasSubstr("reads storage 0, and does so twice"));
  EXPECT_THAT(problem_after(add({.name = "x", .views = {kHidden}})),
              HasSubstr("views storage 2, which was freed before"));
  EXPECT_THAT(problem_after(add({.name = "x", .views = {kWeight, kWeight}})),
              HasSubstr("views storage 0, and does so twice"));
  EXPECT_THAT(problem_after(add({.name = "x", .views = {kWeight}})),
              HasSubstr("views storage 0, which it does not read"));
  EXPECT_THAT(problem_after(add({.name = "x", .frees = {kWeight}})),
              HasSubstr("frees storage 0, which is persistent"));
  EXPECT_THAT(problem_after(add({.name = "x", .creates = {kGradient}})),
              HasSubstr("op 4 (x): creates storage 3, which was created before"));
  EXPECT_THAT(problem_after(add({.name = "x", .creates = {kHidden}})),
              HasSubstr("creates storage 2, which was created before"));
  EXPECT_THAT(problem_after(add({.name = "x", .creates = {kWeight}})),
              HasSubstr("reads storage 0, which is created later"));
}

TEST(TraceValidateTest, RefusesAFreeBeforeTheCreate) {
  Trace trace;
  trace.add(TraceStorage{{8}, StorageRole::kGradient, false, ""});
  trace.add(TraceOp{.name = "zero_grad", .frees = {StorageId{0}}});
  trace.add(TraceOp{.name = "backward", .creates = {StorageId{0}}});
  EXPECT_THAT(validate(trace).value_or("valid"),
              HasSubstr("op 0 (zero_grad): frees storage 0, which is created later"));
}

TEST(TraceValidateTest, RefusesPersistenceThatIsNone) {
  EXPECT_THAT(problem_after([](Trace& t) { t.storages.persistent[3] = 1; }),
              HasSubstr("storage 3: is persistent, but is created"));
  EXPECT_THAT(problem_after([](Trace& t) { t.storages.persistent[0] = 0; }),
              HasSubstr("storage 0: is neither persistent nor"));
  EXPECT_THAT(problem_after([](Trace& t) { t.storages.persistent[0] = 2; }),
              HasSubstr("storage 0: persistent is 2"));
}

TEST(TraceValidateTest, RefusesColumnsThatDoNotFit) {
  EXPECT_NE(problem_after([](Trace& t) { t.storages.name.pop_back(); }), "valid");
  EXPECT_NE(problem_after([](Trace& t) { t.ops.flop.pop_back(); }), "valid");
  EXPECT_NE(problem_after([](Trace& t) { t.ops.signature.pop_back(); }), "valid");
  EXPECT_NE(problem_after([](Trace& t) { t.ops.frees.append({}); }), "valid");
  EXPECT_NE(problem_after([](Trace& t) { t.ops.reads.offsets.clear(); }), "valid");
  EXPECT_NE(problem_after([](Trace& t) { t.ops.reads.offsets.back() = 1000; }), "valid");
  EXPECT_NE(problem_after([](Trace& t) { t.ops.reads.offsets[1] = 1000; }), "valid");
  EXPECT_NE(problem_after([](Trace& t) { t.ops.reads.items.push_back(kWeight); }), "valid");
}

TEST(TraceValidateTest, RefusesNumbersThatAreNone) {
  EXPECT_THAT(problem_after([](Trace& t) { t.ops.duration_ns[1] = -1; }),
              HasSubstr("op 1 (aten::relu_): lasts -1 ns"));
  EXPECT_THAT(problem_after([](Trace& t) { t.storages.role[2] = static_cast<StorageRole>(77); }),
              HasSubstr("storage 2: role 77"));
  const Bytes most{std::numeric_limits<std::uint64_t>::max()};
  EXPECT_THAT(problem_after([&](Trace& t) { t.storages.bytes[1] = most; }), HasSubstr("storage 1"));
  EXPECT_THAT(problem_after([&](Trace& t) { t.ops.workspace[3] = most; }), HasSubstr("op 3"));
}

// --- files ---

class TraceFileTest : public testing::Test {
 public:
  TraceFileTest() {
    std::string pattern = testing::TempDir() + "/spillway-trace-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~TraceFileTest() override { std::filesystem::remove_all(directory_); }

 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }

  static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string directory_;
};

std::string error_of(std::string_view text) {
  try {
    (void)parse_trace(std::string(text), "t.json");
    return "read";
  } catch (const UserError& error) {
    return error.what();
  }
}

std::string with(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(TraceTextTest, ReadsWhatItWrote) {
  EXPECT_EQ(parse_trace(format_trace(small_step()), "t"), small_step());
  EXPECT_EQ(parse_trace(format_trace(Trace{}), "t"), Trace{});
}

TEST(TraceValidateTest, RefusesARecomputableOpThatWritesInPlace) {
  EXPECT_THAT(problem_after([](Trace& t) { t.ops.recomputable[3] = 1; }),
              HasSubstr("op 3 (aten::add_): is recomputable, but writes storage 0"));
}

TEST(TraceStructureTest, IsOfOpsAndBytesAndNotOfTimesAndNames) {
  const std::uint64_t hash = structure_hash(small_step());
  Trace other = small_step();
  other.ops.duration_ns[0] = 77;
  other.ops.name.assign(0, "renamed");
  EXPECT_EQ(structure_hash(other), hash);
  other.storages.bytes[1] = {11};
  EXPECT_NE(structure_hash(other), hash);
  other = small_step();
  other.ops.reads.items[0] = kInput;
  EXPECT_NE(structure_hash(other), hash);
}

TEST(TraceTextTest, HasAnOpPerLine) {
  const std::string text = format_trace(small_step());
  EXPECT_THAT(text, HasSubstr("\n{\"name\":\"aten::relu_\",\"ns\":0,\"thread\":1,\"creates\":[4],"
                              "\"reads\":[2],\"writes\":[2],\"frees\":[4]},\n"));
}

TEST(TraceTextTest, KeepsViews) {
  Trace trace = small_step();
  trace.add(TraceOp{.name = "aten::t", .reads = {kWeight}, .views = {kWeight}});
  const std::string text = format_trace(trace);
  EXPECT_THAT(text, HasSubstr("\"reads\":[0],\"views\":[0]}"));
  EXPECT_EQ(parse_trace(text, "t"), trace);
}

TEST(TraceTextTest, ReplacesWhatIsNotUtf8) {
  Trace trace = small_step();
  trace.machine = "M\xff";
  EXPECT_EQ(parse_trace(format_trace(trace), "t").machine, "M\xef\xbf\xbd");
}

TEST(TraceTextTest, RefusesToWriteNonsense) {
  Trace trace = small_step();
  trace.ops.duration_ns[0] = -1;
  EXPECT_THROW(format_trace(trace), InternalError);
}

TEST(TraceTextTest, TheOrderOfMembersIsFree) {
  EXPECT_EQ(error_of(R"({"ops":[{"ns":1,"reads":[0],"name":"a"}],
      "storages":[{"persistent":true,"bytes":4,"id":0}],"spillway_trace":1})"),
            "read");
}

TEST(TraceTextTest, OfAnotherKindIsCalledThat) {
  EXPECT_EQ(error_of(R"({"spillway_plan":1,"actions":[]})"), "t.json is a plan, not a trace.");
  EXPECT_EQ(error_of(R"({"spillway_machine":1})"), "t.json is a machine, not a trace.");
  EXPECT_THAT(error_of(R"({"spillway_trase":3})"), HasSubstr("\"spillway_trase\" is not known"));
  std::string in_a_row = format_trace(small_step());
  const std::string_view field = "\"thread\":1";
  in_a_row.replace(in_a_row.find(field), field.size(), "\"spillway_plan\":1");
  EXPECT_THAT(error_of(in_a_row), HasSubstr("op 1: \"spillway_plan\" is not known"));
}

TEST(TraceTextTest, NamesTheMistakeAndItsPlace) {
  const std::string good = format_trace(small_step());
  const auto error = [&](std::string_view from, std::string_view to) {
    return error_of(with(good, from, to));
  };
  EXPECT_THAT(error("\"spillway_trace\":5", "\"spillway_trace\":6"), HasSubstr("version 6"));
  EXPECT_THAT(error("\"spillway_trace\":5,", ""), HasSubstr("no \"spillway_trace\""));
  EXPECT_THAT(error("\"machine\"", "\"frame\""), HasSubstr("\"frame\" is not known"));
  EXPECT_THAT(error("\"machine\"", "\"framework\""), HasSubstr("\"framework\" stands twice"));
  EXPECT_THAT(error("\"ns\":1700", "\"ns\":-1700"), HasSubstr("op 2: \"ns\" is -1700"));
  EXPECT_THAT(error("\"ns\":1700", "\"ns\":17e2"), HasSubstr("op 2: \"ns\" is 17e2"));
  EXPECT_THAT(error("\"ns\":1700", "\"ns\":9223372036854775808"),
              HasSubstr("op 2: \"ns\" is 9223"));
  EXPECT_THAT(error("\"ns\":1700,", ""), HasSubstr("op 2: \"ns\" is missing"));
  EXPECT_THAT(error("\"flop\":0", "\"flop\":null"), HasSubstr("op 2: \"flop\" is null"));
  EXPECT_THAT(error("\"thread\":1", "\"thread\":4294967296"), HasSubstr("op 1: \"thread\""));
  EXPECT_THAT(error("\"thread\":1", "\"tread\":1"), HasSubstr("op 1: \"tread\" is not known"));
  EXPECT_THAT(error("\"thread\":1", "\"ns\":1"), HasSubstr("op 1: \"ns\" stands twice"));
  EXPECT_THAT(error("\"reads\":[0,1]", "\"reads\":[0,9]"), HasSubstr("op 0 (aten::addmm): reads "));
  EXPECT_THAT(error("\"reads\":[0,1]", "\"reads\":[0,[1]]"), HasSubstr("op 0: lists are nested"));
  EXPECT_THAT(error("\"reads\":[0,1]", "\"reads\":{}"),
              HasSubstr("op 0: an entry holds an object"));
  EXPECT_THAT(error("\"reads\":[0,1]", "\"reads\":1"), HasSubstr("\"reads\" is not a list"));
  EXPECT_THAT(error("\"reads\":[0,1]", "\"reads\":[-1]"), HasSubstr("\"reads\" is -1"));
  EXPECT_THAT(error("\"workspace\":7", "\"alternatives_ns\":[4]"),
              HasSubstr("op 2: \"alternatives_ns\" has 1 items, but \"alternatives_workspace\""));
  EXPECT_THAT(error("\"thread\":1", "\"arithmetic\":\"float31\""),
              HasSubstr("op 1: \"arithmetic\" is \"float31\", which is no type"));
  EXPECT_THAT(error("\"id\":3", "\"id\":2"), HasSubstr("storage 3: \"id\""));
  EXPECT_THAT(error("\"gradient\"", "\"grad\""), HasSubstr("storage 3: \"role\" is \"grad\""));
  EXPECT_THAT(error("\"ops\":[", "\"ops\":[7,"), HasSubstr("op 0: an entry is not an object"));
  EXPECT_THAT(error("\"test bench\"", "[]"), HasSubstr("\"machine\": is a list"));
  EXPECT_THAT(error("\"test bench\"", "{}"), HasSubstr("\"machine\": is an object"));
}

TEST(TraceTextTest, RefusesWhatIsNoTrace) {
  for (const char* text :
       {"", " ", "null", "[]", "7", "\"x\"", "{}", "{", "hello", "\x28\xb5\x2f\xfd",
        "{\"spillway_trace\":1}}", "{\"ops\":{}}", "{\"ops\":7}"}) {
    EXPECT_THAT(error_of(text), HasSubstr("trace t.json: ")) << text;
  }
  EXPECT_THAT(error_of("{\"ops\":" + std::string(1'000'000, '[')), HasSubstr("not an object"));
  EXPECT_THAT(error_of(std::string(1'000'000, '[')), HasSubstr("not an object"));
}

TEST_F(TraceFileTest, TheDocumentedExampleIsValid) {
  const std::string example = documented_example("## Trace, version 5");
  const Trace trace = parse_trace(example, "docs/formats.md");
  EXPECT_EQ(format_trace(trace), example) << "the page shows what is written";
  EXPECT_EQ(peak_bytes(trace), Bytes{400 + 40 + 32 + 400 + 64});
}

TEST_F(TraceFileTest, ReadsEitherFormWhateverTheName) {
  write_trace(small_step(), path("t.json"));
  write_trace(small_step(), path("t.json.zst"));
  EXPECT_EQ(contents(path("t.json")), format_trace(small_step()));
  EXPECT_EQ(contents(path("t.json.zst")).substr(0, 4), "\x28\xb5\x2f\xfd");
  std::filesystem::rename(path("t.json.zst"), path("u.json"));
  EXPECT_EQ(read_trace(path("t.json")), small_step());
  EXPECT_EQ(read_trace(path("u.json")), small_step());
}

TEST_F(TraceFileTest, LeavesNothingBesideTheFile) {
  write_trace(small_step(), path("t.json"));
  write_trace(small_step(), path("t.json"));
  EXPECT_THROW(write_trace(small_step(), path("absent/t.json")), UserError);
  EXPECT_THROW(write_trace(small_step(), directory_), UserError);
  const std::filesystem::directory_iterator files(directory_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(TraceFileTest, WritesThroughADevice) {
  write_trace(small_step(), "/dev/null");
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
}

TEST_F(TraceFileTest, NamesTheFileThatCannotBeRead) {
  EXPECT_THROW((void)read_trace(path("absent")), UserError);
  EXPECT_THROW((void)read_trace(directory_), UserError);
}

TEST_F(TraceFileTest, SeesEveryTruncation) {
  write_trace(small_step(), path("t.zst"));
  // The line feed at the end of the text is the one byte that is not missed.
  const std::string text = format_trace(small_step());
  const std::string packed = contents(path("t.zst"));
  for (std::size_t size = 0; size + 1 < text.size(); ++size) {
    ASSERT_NE(error_of(std::string_view(text).substr(0, size)), "read") << size;
  }
  for (std::size_t size = 0; size < packed.size(); ++size) {
    ASSERT_NE(error_of(std::string_view(packed).substr(0, size)), "read") << size;
  }
}

/// A valid step of random shape: each op creates a few storages, uses some and frees some.
Trace random_step(std::mt19937& random, std::size_t ops) {
  Trace trace{.machine = "m", .framework = "f", .storages = {}, .ops = {}};
  std::vector<StorageId> alive;
  alive.reserve(12);
  for (int i = 0; i < 5; ++i) {
    alive.push_back(trace.add(TraceStorage{{random() % 1000}, StorageRole::kParameter, true, "w"}));
  }
  const auto add_used = [&](std::vector<StorageId>& list) {
    for (const StorageId id : alive) {
      if (random() % 4 == 0) list.push_back(id);
    }
  };
  for (std::size_t i = 0; i < ops; ++i) {
    TraceOp op{.name = "op" + std::to_string(random() % 9),
               .duration_ns = static_cast<TimeNs>(random() % 100'000)};
    if (random() % 2 == 0) op.flop = random();
    for (auto count = random() % 3; count > 0; --count) {
      op.creates.push_back(
          trace.add(TraceStorage{{random() % 100'000}, StorageRole::kActivation, false, ""}));
      alive.push_back(op.creates.back());
    }
    add_used(op.reads);
    add_used(op.writes);
    for (const StorageId id : op.reads) {
      if (random() % 4 == 0) op.views.push_back(id);
    }
    while (alive.size() > 12) {
      op.frees.push_back(alive[5]);
      alive.erase(alive.begin() + 5);
    }
    trace.add(op);
  }
  return trace;
}

/// Flips, inserts, removes, repeats or truncates somewhere.
void mutate(std::string& text, std::mt19937& random) {
  if (text.empty()) return;
  const std::size_t at = random() % text.size();
  static constexpr std::string_view kTelling = "{}[]\",:-0123456789eE.ntf\\ \xff";
  switch (random() % 6) {
    case 0:
      text[at] = static_cast<char>(random());
      break;
    case 1:
      text[at] = kTelling[random() % kTelling.size()];
      break;
    case 2:
      text.insert(at, 1, kTelling[random() % kTelling.size()]);
      break;
    case 3:
      text.erase(at, 1 + random() % 8);
      break;
    case 4:
      text.insert(random() % text.size(), text.substr(at, random() % 60));
      break;
    default:
      if (random() % 8 == 0) text.resize(at);
      break;
  }
}

// Whatever the bytes, the answer is a valid trace or a UserError; and some of each occur.
TEST_F(TraceFileTest, DamagedInputIsReadOrRefused) {
  const char* const given = std::getenv("TEST_SEED");
  const auto seed = given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10))
                                     : std::random_device{}();
  std::cout << "TEST_SEED=" << seed << '\n';
  std::mt19937 random(seed);
  const Trace trace = random_step(random, 20);
  write_trace(trace, path("t.zst"));
  const std::string forms[] = {format_trace(trace), contents(path("t.zst"))};
  int reads = 0;
  int refusals = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string text = forms[round % 2];
    for (auto count = 1 + random() % 3; count > 0; --count) mutate(text, random);
    try {
      EXPECT_EQ(validate(parse_trace(text, "t")), std::nullopt);
      ++reads;
    } catch (const UserError&) {
      ++refusals;
    }
  }
  EXPECT_GT(reads, 10);
  EXPECT_GT(refusals, 200);
}

TEST(TraceTextTest, ALongStepSurvives) {
  std::mt19937 random(1);
  const Trace trace = random_step(random, 2'000);
  const std::string text = format_trace(trace);
  EXPECT_LT(Bytes{text.size() * 100}, kMostTraceText) << "200 000 ops still fit";
  EXPECT_EQ(parse_trace(text, "t"), trace);
}

}  // namespace
}  // namespace spillway
