# SPDX-License-Identifier: Apache-2.0
"""The list of the widest classes counts functions and members, and nothing else."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import class_widths  # noqa: E402

SOURCE = """
// struct InComment { int no; };
class Wide final : public Base {
 public:
  Wide();
  [[nodiscard]] int inlined() const { return one_ + 2; }
  using Alias = int;
  friend class Other;
  static_assert(sizeof(int) == 4);

 private:
  struct Inner {
    int a = 0;
    int b{};
  };
  enum class Kind { kOne, kTwo };
  void hidden(int x, int y);

  int one_ = 0;
  const char* text_ = "int no; class Text { int a; };";
};
"""


def test_functions_and_members_are_counted_by_class():
    found = {width.name: width[:2] for width in class_widths.widths_in(SOURCE, "wide.hpp")}
    assert found == {"Wide": (3, 2), "Inner": (0, 2)}


def test_the_report_has_as_many_classes_as_asked_for_the_widest_first():
    sizes = [width.functions + width.members for width in class_widths.widest(7)]
    assert len(sizes) == 7
    assert sizes == sorted(sizes, reverse=True)
    assert len(class_widths.report(7).splitlines()) == 8
