"""Each fault of the simulation is one of real Spark, real processes or real storage: a test provokes it there."""

import ast
from pathlib import Path

import pytest

from simulation.faults import Fault

TESTS = Path(__file__).parent.parent
FAULTS = "spark/test_simulated_faults.py::"
LANES, MOVING, ALIVE = (
    "spark/live/test_live_masters.py::",
    "spark/live/test_moving.py::",
    "spark/live/test_preemption.py::",
)
EXPANSION, QUARANTINE = "spark/test_expansion_streams.py::", "spark/test_quarantine.py::"
A_BAD_BLOCK = QUARANTINE + "test_a_bad_block_is_set_aside_and_all_others_are_there_once"
SINK = FAULTS + "test_a_sink_that_raises_or_is_slow_once"
ANCHORS = {
    Fault.CRASH: LANES + "test_a_lane_that_fails_is_run_again",
    Fault.COPY: LANES + "test_speculative_copies_on_two_hosts",
    Fault.TWIN_CRASH: "spark/live/test_live_faults.py::test_every_record_once_whatever_is_killed_when",
    Fault.EXECUTOR_LOST: MOVING + "test_an_executor_dies",
    Fault.INNOCENT_KILLED: FAULTS + "test_no_block_is_blamed_for_a_process_that_was_killed_beside_others",
    Fault.OUTLIVES_JOB: EXPANSION + "test_an_action_that_is_cancelled_can_be_run_again",
    Fault.CUT: FAULTS + "test_a_lane_whose_connection_breaks_is_run_again",
    Fault.LATE_MESSAGE: LANES + "test_a_lane_that_is_stopped_and_goes_on",
    Fault.LEAVE: ALIVE + "test_a_worker_that_is_told_to_end_loses_nothing",
    Fault.TOLD_TO_LEAVE: MOVING + "test_all_lanes_of_an_executor_leave_together",
    Fault.JOIN: MOVING + "test_executors_that_come_get_lanes",
    Fault.GIVEN_UP: "spark/live/test_live.py::test_take_and_first_do_not_run_the_whole_job",
    Fault.FREES_SLOT: EXPANSION + "test_elements_that_are_expanded_again_get_a_slot",
    Fault.DRIVER_DIES: "spark/test_save_crashes.py::test_a_run_survives_a_death_at_every_point",
    Fault.LOG_END_LOST: "spark/test_save_crashes.py::test_a_process_may_die_at_any_point",
    Fault.SINK_RAISES: SINK,
    Fault.SLOW_SEGMENT: SINK,
    Fault.SLOW_STORAGE: SINK,
    Fault.RECEIPT_LATE: "spark/test_exactly_once.py::test_receipts_that_are_lost_or_doubled",
    Fault.RECEIPT_DOUBLED: "spark/test_exactly_once.py::test_receipts_that_are_lost_or_doubled",
    Fault.EXPANDED_TWICE: EXPANSION + "test_expanded_elements_that_are_lost_or_doubled",
    Fault.WORKER_LOST: QUARANTINE + "test_a_block_that_takes_its_worker_along_is_set_aside",
    Fault.STAGE_GIVEN_UP: QUARANTINE + "test_a_block_that_takes_its_worker_along_is_set_aside",
    Fault.TAKES_ALONG: MOVING + "test_a_block_that_takes_its_executor_along_is_set_aside",
    Fault.RAISES: A_BAD_BLOCK,
    Fault.DIES: A_BAD_BLOCK,
    Fault.IS_KILLED: A_BAD_BLOCK,
    Fault.HANGS: A_BAD_BLOCK,
}


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
def test_a_test_with_real_spark_provokes_the_fault_as_well(fault):
    """It is there, by its name."""
    file, name = ANCHORS[fault].split("::")
    functions = ast.walk(ast.parse((TESTS / file).read_text()))
    assert name in {node.name for node in functions if isinstance(node, ast.FunctionDef)}
