// SPDX-License-Identifier: Apache-2.0
#include "graph_def.hpp"

#include <gmock/gmock.h>

#include <random>

#include "graph_builder.hpp"
#include "op_types.hpp"
#include "wire.hpp"

namespace spillway::tf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WireTest, ReadsTheBytesThatTheFormatDescribes) {
  // Field 1, varint 150; field 2, "testing"; field 3, fixed32; field 4, fixed64. From the
  // format's own description: 150 is 96 01.
  const std::string message("\x08\x96\x01\x12\x07testing\x1d\1\2\3\4\x21\1\2\3\4\5\6\7\x08", 26);
  FieldReader reader(message);
  Field field;
  ASSERT_TRUE(reader.next(field));
  EXPECT_EQ(field.number, 1U);
  EXPECT_EQ(field.value, 150U);
  ASSERT_TRUE(reader.next(field));
  EXPECT_EQ(field.bytes, "testing");
  EXPECT_EQ(field.whole, message.substr(3, 9));
  ASSERT_TRUE(reader.next(field));
  EXPECT_EQ(field.type, WireType::kFixed32);
  ASSERT_TRUE(reader.next(field));
  EXPECT_EQ(field.number, 4U);
  EXPECT_FALSE(reader.next(field));

  std::string written;
  append_varint_field(written, 1, 150);
  append_bytes_field(written, 2, "testing");
  EXPECT_EQ(written, message.substr(0, 12));
}

TEST(WireTest, RefusesWhatIsNoMessage) {
  for (const std::string text :
       {"\x08",
        "\x12\005abc",  // octal: abc are digits of \x
        "\x0b", "\x02", "\x1d\1\2", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    FieldReader reader(text);
    Field field;
    EXPECT_THROW(reader.next(field), MalformedMessage) << ::testing::PrintToString(text);
  }
}

TEST(WireTest, ArbitraryBytesAreAGraphOrRefused) {
  std::mt19937_64 random(7);
  std::size_t refused = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    Graph graph = testing::RandomGraph(random()).make(6);
    std::string bytes = graph.serialize();
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      const std::string again = Graph::parse(bytes).serialize();
      EXPECT_EQ(Graph::parse(again).serialize(), again);
    } catch (const MalformedMessage&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100U);
}

TEST(GraphDefTest, KeepsWhatItDoesNotKnow) {
  std::string node;
  append_bytes_field(node, 1, "a");
  append_bytes_field(node, 2, "Op");
  append_bytes_field(node, 3, "b:1");
  append_bytes_field(node, 3, "^c");
  append_bytes_field(node, 4, "/device:CPU:0");
  append_bytes_field(node, 99, "of a later version");
  std::string message;
  append_bytes_field(message, 1, node);
  append_bytes_field(message, 2, "library");
  append_varint_field(message, 77, 5);
  const Graph graph = Graph::parse(message);
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_THAT(graph.nodes[0].inputs, ElementsAre("b:1", "^c"));
  EXPECT_EQ(graph.nodes[0].device, "/device:CPU:0");
  EXPECT_EQ(graph.serialize(), message);
}

TEST(GraphDefTest, TakesInputsApart) {
  EXPECT_EQ(parse_input("a").node, "a");
  EXPECT_EQ(parse_input("a:12").port, 12U);
  EXPECT_TRUE(parse_input("^a").control);
  EXPECT_EQ(to_input("a", 0), "a");
  EXPECT_EQ(to_input("a", 2), "a:2");
  EXPECT_THROW(parse_input("a:b"), MalformedMessage);
}

std::string output(std::uint32_t field, std::string_view attribute) {
  std::string message;
  append_bytes_field(message, field, attribute);
  return message;
}

TEST(OpTypesTest, FollowsTypeNumberAndListAttributes) {
  std::string description;
  append_bytes_field(description, 3, output(4, "T"));
  std::string several = output(4, "T");
  append_bytes_field(several, 5, "N");
  append_bytes_field(description, 3, several);
  append_bytes_field(description, 3, output(6, "Tlist"));
  Node node{.name = "n", .op = "Op", .device = {}, .inputs = {}, .rest = {}};
  EXPECT_THAT(output_types(node, description), IsEmpty()) << "attributes are missing";
  node.add_type_attribute("T", kInt32);
  node.add_int_attribute("N", 2);
  std::string list;
  append_bytes_field(list, 6, std::string("\x01\x07", 2));  // packed
  std::string value;
  append_bytes_field(value, 1, list);
  std::string entry;
  append_bytes_field(entry, 1, "Tlist");
  append_bytes_field(entry, 2, value);
  append_bytes_field(node.rest, 5, entry);
  EXPECT_THAT(output_types(node, description), ElementsAre(kInt32, kInt32, kInt32, kFloat, 7U));
}

TEST(OpTypesTest, TakesDefaultsAndTellsReferencesApart) {
  std::string attribute;
  append_bytes_field(attribute, 1, "T");
  std::string value;
  append_varint_field(value, 6, kFloat);
  append_bytes_field(attribute, 3, value);
  std::string reference = output(4, "T");
  append_varint_field(reference, 16, 1);
  std::string description;
  append_bytes_field(description, 3, reference);
  append_bytes_field(description, 4, attribute);
  const Node node{.name = "n", .op = "Op", .device = {}, .inputs = {}, .rest = {}};
  const auto types = output_types(node, description);
  ASSERT_EQ(types.size(), 1U);
  EXPECT_FALSE(is_plain(types[0]));
  EXPECT_TRUE(is_plain(types[0] - 100));
}

}  // namespace
}  // namespace spillway::tf
