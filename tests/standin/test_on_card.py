# SPDX-License-Identifier: Apache-2.0
"""The list of programs for the stand-in card is about the catalog as it is."""

from tests.oracle import catalog
from tests.oracle.turns import TODAY, of_the_day
from tests.standin import on_card

AT_LEAST = 40


def test_every_program_trains_there_or_has_a_reason():
    trains = {name for name, _ in on_card.CASES}
    assert trains.isdisjoint(on_card.CANNOT)
    assert trains | set(on_card.CANNOT) == {program.name for program in catalog.PROGRAMS}
    assert set(on_card.NOTHING_CAN_LEAVE) <= {
        (program.name, optimizer)
        for program in catalog.PROGRAMS
        for optimizer in program.optimizers
    }
    assert len(trains) >= AT_LEAST
    assert all(failure.says and failure.why for failure in on_card.CANNOT.values())


def test_every_program_has_its_turn():
    days = range(TODAY, TODAY + len(on_card.CASES))
    assert {case for day in days for case in of_the_day(on_card.CASES, 1, day)} == set(
        on_card.CASES
    )
