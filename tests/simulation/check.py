"""What must hold at the end of a run."""

import itertools
import pickle
from collections import Counter

from sdf.execution.bulk.table import Rows
from sdf.execution.executor import run_to_end
from sdf.saving.history import History
from sdf.scheduling.run_state import RunState
from simulation.faults import Fault
from simulation.plan import LANES
from simulation.user import blocks_of, can_be_cut


def all_once(world, records):
    """Each block is there once: as a record, or set aside."""
    found = Counter(records)
    aside = Counter((block.element[0], i) for block in world.failed_blocks for i in range(*block.restriction))
    assert found + aside == Counter(blocks_of(world.plan.elements)), "not exactly once"
    bad = {each[:2] for each in world.plan.bad}
    assert bad <= set(aside), "a bad block is not set aside"
    innocent = [block for block in aside if block not in bad and can_be_cut(block[0])]
    assert not innocent, f"an innocent block is set aside: {innocent}"
    alone = {tuple(block.restriction) for block in world.failed_blocks if can_be_cut(block.element[0])}
    assert all(stop == start + 1 for start, stop in alone), "blocks are set aside together"
    world.counts["set aside"] += len(world.failed_blocks)


def kept_lanes(world, driver):
    """One action, perhaps after one that was given up, and a second: each lane gives the same, and nothing is split."""
    plan, choose, coordinator = world.plan, world.random, driver.coordinator
    if world.faults.strikes(Fault.GIVEN_UP):
        wanted = choose.sample(range(plan.lanes), choose.randint(1, plan.lanes))
        driver.action(wanted, choose.choice([0.02, 0.1, 0.5]))
    first = driver.action()
    all_once(world, itertools.chain.from_iterable(first.values()))
    driver.work.ledger.prove()
    splits = driver.work.splits
    assert driver.action() == first, "the second action gave something else"
    assert driver.work.splits == splits, "the second action split again"
    report = coordinator.report(world.clock.now)
    assert report.records == sum(map(len, first.values())), "the report does not add up"
    pieces_add_up(world, report)
    world.counts.update(splits=splits, retries=report.retries, replays=report.replays)


def kept_stages(world, driver, report):
    """All blocks are there once, also where all that was stored is lost."""
    run = driver.run
    world.failed_blocks = run.failed() or []
    assert {*report.failures} == {*world.failed_blocks}
    committed = run.committed()
    found = [world.sink.records[world.by_attempt[receipt.stamp.attempt]] for receipt, _ in committed]
    all_once(world, itertools.chain.from_iterable(found))
    for records, (receipt, content) in zip(found, committed, strict=True):
        assert Counter(replayed(world, content)) == Counter(records), "a replay gave something else"
        note_rows(world, receipt.outcome.parts)
    assert report.records == sum(map(len, found)), "the report does not add up"
    pieces_add_up(world, report)
    world.counts.update(splits=report.splits, stages=report.stages)


def replayed(world, content):
    """Run again what a task has committed, as for a block that is lost."""
    items = pickle.loads(pickle.dumps(content))
    return run_to_end(world.fn, items, clock=world.clock.monotonic, sleep=lambda seconds: None)


def note_rows(world, parts):
    """Count what the committed attempts did with the rows of tables."""
    for part in parts:
        nearest = part.residuals[-1]
        if isinstance(nearest.restriction, Rows):
            inside = nearest.restriction.start[1] > 0
            if nearest.deferred:
                world.counts["deferred inside a row" if inside else "deferred before a claim"] += 1
            else:
                world.counts["cut inside a row" if inside else "cut between rows"] += 1
            world.counts["rows behind"] += len(part.residuals) > 1


def pieces_add_up(world, report):
    """Each piece has the records of its restriction; rows that ran together are one piece."""
    wrong = "the report does not add up"
    elements = world.plan.elements
    assert report.elements == len(elements), wrong
    assert set(report.split_elements) <= set(elements), wrong
    assert sum(piece.records for piece in report.pieces) == report.records, wrong
    if world.plan.tables:
        assert all(piece.elements > 1 or piece.element in elements for piece in report.pieces), wrong
        return
    for piece in report.pieces:
        numbers = 0 if piece.restriction is None else piece.restriction.stop - piece.restriction.start
        assert piece.records == numbers, wrong
        assert piece.units == numbers or "unsized" in piece.element[0], wrong


def saved(world):
    """Each record is in one committed segment; the log says so, and has no work left."""
    history = History(world.storage.log())
    messages = world.messages.committed
    assert history.messages(0) == messages, "the log has other messages than the sink"
    assert history.of_messages() == world.saving.history.of_messages(), "the log has other messages than its driver"
    records = list(itertools.chain.from_iterable(world.sink.records[number] for number in messages))
    all_once(world, records)
    assert sum(history.records) == len(records), "the log counts other records"
    assert history.done
    assert history.replay(RunState(world.fn)) == [], "the log has open work"
    world.driver.work.ledger.prove()
    world.counts.update(splits=world.driver.work.splits)
    if world.plan.runner == LANES:
        report = world.driver.coordinator.report(world.clock.now)
        world.counts.update({"attempts lost with work": report.retries})
