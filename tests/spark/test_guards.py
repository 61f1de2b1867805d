"""Every guard has a test that fails when the guard is taken out: each mutant of sdf here must be caught."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sdf

ONCE = "spark/test_exactly_once.py::"
LIVE = "spark/live/test_live.py::"
SERVER = "spark/live/test_live_server.py::"
SENT = "spark/test_broadcasts.py::"
LOG = "saving/test_run_log.py::"
HISTORY = "saving/test_history.py::"
SAVED = "lanes/test_coordinator.py::"
CHILD = "spark/test_child_signals.py::"
BALLOTS = "storage/test_ballots.py::test_whoever_pauses_or_dies_one_content_is_decided"
MUTANTS = {
    "a reader believes any block": (
        "spark/staged/stored_blocks.py",
        "ours = message if message in committed else None",
        "ours = message",
        ONCE + "test_blocks_lost_before_the_first_action_and_again_later",
    ),
    "a reader believes any attempt": (
        "spark/staged/stored_blocks.py",
        "ours = message if message in committed else None",
        "ours = message",
        ONCE + "test_only_one_of_two_attempts_counts",
    ),
    "a lost block is computed again by the clock": (
        "spark/staged/task.py",
        "if context.getLocalProperty(STAGE_PROPERTY) != ",
        "if None == ",
        ONCE + "test_blocks_lost_before_the_first_action_and_again_later",
    ),
    "a second attempt is committed too": (
        "scheduling/ledger.py",
        "        if owner in self._sealed:\n            return None\n",
        "        self._sealed.pop(owner, None)\n",
        ONCE + "test_only_one_of_two_attempts_counts",
    ),
    "elements that arrive again are entered again": (
        "spark/expansion_job.py",
        "        if one.partition in self._left:\n",
        "        if True:\n",
        "spark/test_expansion_streams.py::test_expanded_elements_that_are_lost_or_doubled",
    ),
    "a residual is dropped": (
        "scheduling/ledger.py",
        "todo += zip(children,",
        "todo += zip(children[1:], [] and",
        ONCE + "test_only_one_of_two_attempts_counts",
    ),
    "a block that was cut short is believed": (
        "spark/staged/stored_blocks.py",
        "    if ours is not None:\n        raise",
        "    if False:\n        raise",
        ONCE + "test_a_block_without_its_receipt_is_refused",
    ),
    "a replay that gives something else is believed": (
        "spark/staged/task.py",
        "if found != self._counts[number]:",
        "if False:",
        ONCE + "test_a_process_that_is_not_deterministic_is_found_out",
    ),
    "parts that do not add up are believed": (
        "execution/expansion.py",
        '        if flaw is not None:\n            raise SplitError(f"its parts',
        '        if False:\n            raise SplitError(f"its parts',
        "spark/test_run_sdf.py::test_a_broken_dofn_is_an_error_that_names_it",
    ),
    "a failed run leaves its jobs": (
        "spark/staged/run.py",
        "            self._jobs.cancel()\n",
        "",
        "spark/test_run_sdf.py::test_a_failure_leaves_no_job_and_no_stored_block",
    ),
    "a lane ends unsealed": (
        "lanes/lane.py",
        "            if self._sealed:\n                return None\n",
        "            if self._executor.items:\n                return None\n",
        LIVE + "test_the_report",
    ),
    "a replay of a lane that gives something else is believed": (
        "lanes/replayed.py",
        "if (records, tagged) != (lane.sealed.records, lane.tagged):",
        "if False:",
        LIVE + "test_a_process_that_is_not_deterministic_is_found_out",
    ),
    "an undeclared tag is let through": (
        "model/dofn.py",
        "        if self.declared is not None:\n",
        "        if False:\n",
        LIVE + "test_an_undeclared_tag_is_an_error_at_once",
    ),
    "the coordinator outlives its lanes": (
        "spark/broadcasts.py",
        "return not self.freed and not is_stopped(self.sc)",
        "return True",
        LIVE + "test_the_coordinator_ends_when_the_rdd_is_forgotten",
    ),
    "the coordinator ends while the JVM needs it": (
        "spark/broadcasts.py",
        "return not is_stopped(use.sc) and use.is_in_jvm()",
        "return False",
        LIVE + "test_the_coordinator_ends_when_the_rdd_is_forgotten",
    ),
    "what was sent is freed while the JVM needs it": (
        "spark/broadcasts.py",
        "return not is_stopped(use.sc) and use.is_in_jvm()",
        "return False",
        SENT + "test_it_is_kept_for_what_the_user_made_of_the_result",
    ),
    "a broadcast of another context is destroyed": (
        "spark/door/broadcasts.py",
        "if not has_ended(sc):",
        "if True:",
        SENT + "test_freeing_it_after_the_end_of_its_context_frees_nothing_of_the_next",
    ),
    "an interrupted action leaves its job": (
        "spark/actions.py",
        "        cancelling.start()\n        cancelling.join()\n",
        "",
        "spark/test_processes.py::test_an_interrupted_action_takes_its_job_along",
    ),
    "an output before the first claim is let through": (
        "execution/output_count.py",
        "if first and self.records else None",
        "if False else None",
        "spark/test_outputs_outside_claims.py",
    ),
    "an output after a refused claim is let through": (
        "execution/output_count.py",
        "        if late:\n",
        "        if False:\n",
        "spark/test_outputs_outside_claims.py",
    ),
    "records are compared in total, not by tag": (
        "lanes/replayed.py",
        "if (records, tagged) != (lane.sealed.records, lane.tagged):",
        "if records != lane.sealed.records:",
        LIVE + "test_tags_that_are_made_up_anew_are_found_out",
    ),
    "whole sizes add up within rounding": (
        "model/restrictions.py",
        "rounded = not (exact and _is_whole(total)) and math",
        "rounded = math",
        "model/test_restrictions.py::test_whole_sizes_add_up_exactly",
    ),
    "what stays with a lane is reported as work items of its own": (
        "lanes/lane.py",
        "self._executor.end(_driver_id(running.item))",
        "self._executor.end()",
        "lanes/test_lane.py::test_a_lane_says_no_more_however_many_parts_stay_with_it",
    ),
    "a lane is given as many work items as are due, however large": (
        "lanes/assignment.py",
        "                sent //= 2\n",
        "                raise\n",
        "lanes/test_coordinator.py::test_what_a_lane_is_given_fits_in_a_message",
    ),
    "an error of one run ends the server of all": (
        "spark/live/contained_run.py",
        "                self._fail(error)\n                return None\n",
        "                raise\n",
        "spark/live/test_contained_run.py::test_a_bug_fails_its_run_and_no_other",
    ),
    "what nobody uses is never freed": (
        "spark/broadcasts.py",
        "            if not _is_in_jvm(use):\n",
        "            if False:\n",
        SENT + "test_what_was_sent_is_freed_when_the_result_is_dropped",
    ),
    "a forked process tears down": (
        "spark/payload.py",
        "            while _loaded[os.getpid()]:\n                _tear_down_oldest()",
        "            for one in _loaded.values():\n                [fn.teardown() for fn, _ in one.values()]",
        "spark/test_run_sdf.py::test_teardown_does_not_run_in_a_process_that_process_forks",
    ),
    "the secret is not asked for": (
        "spark/live/server.py",
        "if run is None or not hmac.compare_digest(proof, ",
        "if run is None or hmac.compare_digest(proof + b'x', ",
        SERVER + "test_a_stranger_with_a_wrong_secret_learns_nothing",
    ),
    "a stranger may stay": (
        "spark/live/server.py",
        "deadline <= now:",
        "deadline <= 0:",
        SERVER + "test_a_stranger_who_says_nothing_or_half_a_word_is_cut_off",
    ),
    "any number of strangers is let in": (
        "spark/live/server.py",
        "if len(self._unauthenticated) > _MOST_UNAUTHENTICATED:",
        "if False:",
        SERVER + "test_a_thousand_silent_connections_delay_a_run_by_less_than_a_second",
    ),
    "the driver is not asked for the secret": (
        "spark/live/link.py",
        "!= driver_proof(secret, theirs, mine):",
        "== b'':",
        SERVER + "test_a_lane_refuses_a_coordinator_that_does_not_know_the_secret",
    ),
    "a frame is believed unseen": (
        "lanes/wire.py",
        "if not hmac.compare_digest(mac, self._mac(payload)):",
        "if self._mac(payload) == b'':",
        "lanes/test_wire.py::test_frames_cannot_be_repeated_left_out_or_swapped",
    ),
    "a description may name any code": (
        "serialization/values.py",
        "        if type(number) is not int or not 0 <= number < len(self._parts):\n",
        (
            "        if isinstance(number, str):\n            import importlib\n"
            "            module, _, what = number.partition(':')\n"
            "            return getattr(importlib.import_module(module), what)\n"
            "        if type(number) is not int or not 0 <= number < len(self._parts):\n"
        ),
        SERVER + "test_a_description_names_no_code",
    ),
    "a driver whose batch was committed by another calls its sink": (
        "journal/journal.py",
        (
            "        if self._storage.size(block_name(self.next_seq)) is not None:\n"
            "            raise self.fenced()  # that driver may"
        ),
        "        if False:\n            raise self.fenced()  # that driver may",
        "journal/test_journal.py::test_a_driver_whose_batch_another_has_committed_is_fenced_before_its_sink",
    ),
    "a void step has no pin before that of the next one": (
        "spark/stream/checkpoint.py",
        "        for step in range(self._pinned, len(pins)):\n",
        "        for step in range(len(pins) - 1, len(pins)):\n",
        "spark/stream/test_stream.py::test_what_comes_while_a_stream_is_down_is_not_lost_to_a_step_that_had_nothing_due",
    ),
    "a batch is given before all its pins are written": (
        "spark/stream/micro_batches.py",
        "            if self.checkpoint.write_pins(pins) is not pins[-1]:\n",
        "            if False:\n",
        (
            "spark/stream/test_stream_outputs.py::"
            "test_a_step_that_had_nothing_to_do_is_not_run_again_when_its_batch_comes_again"
        ),
    ),
    "the key of a batch does not say what it holds": (
        "journal/journal.py",
        "canonical([self.head.hash, self.next_seq, content])",
        "canonical([self.head.hash, self.next_seq])",
        "spark/stream/test_stream_keys.py",
    ),
    "work that was not started is taken for work without news": (
        "spark/stream/shares.py",
        "attrs.evolve(planned[number], seen=None)",
        "planned[number]",
        "spark/stream/test_many_files.py::test_an_idle_stream_writes_nothing_and_runs_nothing",
    ),
    "a drain goes on beside a batch that another driver has planned": (
        "spark/stream/checkpoint.py",
        "        if self.journal.write_ahead(_FIRST, {_CHANGED: changed}) != {_CHANGED: changed}:\n",
        "        if self.journal.write_ahead(_FIRST, {_CHANGED: changed}) is None:\n",
        "spark/stream/test_stream.py::test_a_drain_commits_nothing_where_another_driver_has_begun",
    ),
    "a driver whose number is packed and removed goes on": (
        "saving/run_log.py",
        "            if self._storage.size(_pack_name(number // _PACKED)) is not None:\n",
        "            if False:\n",
        LOG + "test_a_driver_that_was_overtaken_writes_nothing_any_more",
    ),
    "a pack that a crash has prevented is never made": (
        "saving/run_log.py",
        "        while self.next_number // _PACKED > self._packs:\n            self._pack(self._packs)\n",
        "        if self.next_number % _PACKED == 0:\n            self._pack(self.next_number // _PACKED - 1)\n",
        LOG + "test_a_driver_may_die_at_any_point_and_the_next_one_too",
    ),
    "a missing pack is taken for an empty log": (
        "saving/run_log.py",
        "        if later:\n",
        "        if False:\n",
        LOG + "test_a_missing_pack_is_an_error",
    ),
    "a writer overrules a ballot that has become whole": (
        "storage/ballots.py",
        "            data = data if found is None else found\n",
        "",
        BALLOTS,
    ),
    "a writer does not look whether it was overtaken": (
        "storage/ballots.py",
        "            taken = _propose(path, ballots, data) or taken\n",
        "            taken = _propose(path, ballots, data) or taken\n            return\n",
        BALLOTS,
    ),
    "a torn file is believed": (
        "storage/ballots.py",
        "    return data if content == _sealed(data) else None\n",
        "    return data\n",
        BALLOTS,
    ),
    "a reader believes a ballot that another writer may overrule": (
        "storage/ballots.py",
        "        if is_decided or found is None:\n            return found\n",
        "        return found\n",
        BALLOTS,
    ),
    "runs add to a Delta table without links at the same moment": (
        "sinks/delta_turns.py",
        "    while owner != mine:\n",
        "    while False:\n",
        "sinks/test_delta.py::test_runs_that_commit_at_once_take_turns",
    ),
    "a torn marker of a commit is taken for a stranger's": (
        "sinks/by_pieces.py",
        "            found.remove(COMMITTED)",
        "            pass",
        "sinks/test_power_loss.py::test_any_loss_of_power_leaves_a_run_to_resume",
    ),
    "a reader of the log numbers the work items otherwise than the next driver": (
        "saving/history.py",
        "        self._parts = self._parts.renumbered(retry=retry)\n",
        "",
        HISTORY + "test_the_next_driver_has_the_same_open_work",
    ),
    "work that is missing in the log is not missed": (
        "saving/history.py",
        "one = restrictions[0][0] if untouched else",
        "one = restrictions[0][0] if len(parts) == 1 else",
        HISTORY + "test_a_history_that_does_not_add_up_is_an_error",
    ),
    "a sink may leave records unread": (
        "saving/segments.py",
        "        if next(records, _END) is not _END:\n",
        "        if False:\n",
        "saving/test_segments.py::test_a_sink_that_leaves_records_is_an_error",
    ),
    "a segment ends before what stays with its lane has run": (
        "lanes/lane.py",
        "            if not self._mine and self._is_over():\n",
        "            if self._is_over():\n",
        "simulation/test_seeds.py::test_every_record_exactly_once_whatever_happens_when",
    ),
    "a second attempt at a lane of a saved run shares its work": (
        "lanes/segmented.py",
        "        if 0 <= hello.lane < len(self._lanes) and not self._lanes[hello.lane].begun:\n",
        "        if 0 <= hello.lane < len(self._lanes):\n",
        SAVED + "test_a_second_attempt_at_a_lane_of_a_saved_run_has_work_of_its_own",
    ),
    "what a lost attempt had deferred is waited for by nobody": (
        "lanes/delayed_work.py",
        "        if not self._deserted or heir is None:\n",
        "        if True:\n",
        SAVED + "test_what_a_lost_attempt_had_deferred_is_waited_for_by_another",
    ),
    "what is committed is committed again": (
        "scheduling/ledger.py",
        "            node.owner = part\n",
        "            node.owner = None\n",
        "scheduling/test_ledger.py::test_nothing_can_be_done_to_what_is_committed",
    ),
    "outputs are told apart by the order in which a call names them": (
        "saving/outputs.py",
        "for name in sorted(names))]",
        "for name in names)]",
        "spark/test_save_sdf.py::test_the_order_in_which_outputs_are_named_means_nothing",
    ),
    "a message is kept as the sink returned it": (
        "saving/segments.py",
        "messages[name] = _as_json(message, sink)",
        "messages[name] = message",
        "saving/test_segments_go_wrong.py",
    ),
    "a driver does not say that it takes over": (
        "saving/saving.py",
        '            record = ["driver", driver]\n',
        '            record = ["running", 0.0]\n',
        "spark/test_save_crashes.py::test_a_driver_that_stops_while_another_one_begins_and_dies_may_not_go_on",
    ),
    "a split is not in the log": (
        "saving/saving.py",
        "            todo = [(item, 0.0) for item in work.add(elements)]\n            self._writer.flush()\n",
        "            return [(item, 0.0) for item in work.add(elements)]\n",
        "spark/test_save_crashes.py::test_a_resume_survives_deaths_too",
    ),
    "a split counts what is delivered before it stops the delivery": (
        "execution/offset_claims.py",
        (
            "        if stopping:\n            positions.__setstate__(sys.maxsize)\n"
            "        last = end - length_hint(ones) - 1\n"
        ),
        (
            "        last = end - length_hint(ones) - 1\n"
            "        if stopping:\n            positions.__setstate__(sys.maxsize)\n"
        ),
        "execution/test_offset_claims.py::test_nothing_is_delivered_while_a_split_counts",
    ),
    "a task leaves its input unread": (
        "spark/staged/task.py",
        "((items, budget_seconds),) = partition",
        "items, budget_seconds = next(iter(partition))",
        "spark/test_run_sdf.py::test_setup_runs_once_per_worker",
    ),
    "a child outlives its worker": (
        "spark/child.py",
        '    threading.Thread(target=_end_with_parent, name="sdf-parent", daemon=True).start()\n',
        "",
        CHILD + "test_the_child_ends_with_its_worker",
    ),
    "what kills a process is set aside at its first death": (
        "quarantine/suspects.py",
        "_DEATHS_WHEN_IDLE = 2",
        "_DEATHS_WHEN_IDLE = 1",
        "quarantine/test_suspects.py::test_what_kills_a_process_must_do_so_twice_while_nothing_else_runs",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_what_a_mutant_changes_is_there_once(name):
    """So that it is noticed here that a guard has other words by now."""
    module, before, _, _ = MUTANTS[name]
    assert (Path(sdf.__file__).parent / module).read_text().count(before) == 1


@pytest.mark.soak
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name, tmp_path):
    """The test named beside it passes as things are (make test) and fails for the mutant."""
    module, before, after, test = MUTANTS[name]
    shutil.copytree(Path(sdf.__file__).parent, tmp_path / "sdf")
    path = tmp_path / "sdf" / module
    path.write_text(path.read_text().replace(before, after))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}"}
    tests = Path(__file__).parent.parent
    command = [sys.executable, "-u", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(tests / test)]
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        try:
            printed, _ = run.communicate(timeout=900)
        except subprocess.TimeoutExpired:  # a mutant that leaves a job running may keep its own process from ending
            os.killpg(run.pid, signal.SIGKILL)
            printed, _ = run.communicate()
    assert "1 failed" in printed, printed[-2000:]
