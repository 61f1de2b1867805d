"""The byte-key tracker: every row of section 5 of the tracker semantics, and every small split."""

import math
import re
import threading
from itertools import product

import pytest

from sdf.errors import ClaimError, DeferError, InvalidTypeError, InvalidValueError, UnclaimedWorkError
from sdf.model.byte_key_tracker import ByteKeyRangeTracker
from sdf.model.restrictions import ByteKeyRange, OffsetRange
from sdf.model.trackers import Progress

FRACTIONS = (0, 0.001, 0.25, 0.5, 0.7, 0.999, 1)
KEYS = [bytes(letters) for length in (1, 2) for letters in product((0x00, 0x01, 0xFF), repeat=length)]
BOUNDS = [b"", *KEYS]
RANGES = [ByteKeyRange(start, stop) for start in BOUNDS for stop in BOUNDS if not stop or start <= stop]


def keys(start, stop):
    """Return the range between two keys written in hex."""
    return ByteKeyRange(bytes.fromhex(start), bytes.fromhex(stop))


def tracker_at(restriction, *claims):
    """Return a tracker that tried these claims."""
    tracker = ByteKeyRangeTracker(restriction)
    for key in claims:
        tracker.try_claim(key)
    return tracker


def state_of(tracker):
    return tracker.current_restriction(), tracker.progress(), tracker.started, tracker.refused


def error_text(call, *args):
    """Return the text of what the call raises, None if it does not."""
    try:
        call(*args)
    except Exception as error:
        return str(error)
    return None


def inside(key, restriction):
    return restriction.start <= key and (not restriction.stop or key < restriction.stop)


@pytest.mark.parametrize("restriction", [OffsetRange(0, 1), (b"a", b"b"), None], ids=repr)
def test_tracker_needs_a_byte_key_range(restriction):
    """Anything else is refused by name."""
    with pytest.raises(InvalidTypeError, match=re.escape(f"needs a ByteKeyRange (got {restriction!r}).")):
        ByteKeyRangeTracker(restriction)


# Claims


@pytest.mark.parametrize(
    ("restriction", "claims", "answers"),
    [
        (keys("10", "20"), [b"\x10", b"\x14", b"\x1f\xff"], [True, True, True]),
        (keys("10", "20"), [b"\x14", b"\x20"], [True, False]),
        (keys("10", "20"), [b"\xff"], [False]),
        (keys("10", "20"), [b"\x14", b""], [True, False]),
        (keys("10", "20"), [b"\x14", b"\x14\x00"], [True, True]),
        (keys("10", ""), [b"\x10", b"\xff" * 100, b""], [True, True, False]),
        (ByteKeyRange(), [b"\x00", b"a", b""], [True, True, False]),
        (ByteKeyRange(), [b""], [False]),
        (ByteKeyRange(b"", b"\x00"), [b"\x00"], [False]),
        (keys("10", "10"), [b"\x10"], [False]),
    ],
)
def test_claims(restriction, claims, answers):
    """True inside, False at or past the stop and for the empty key."""
    tracker = ByteKeyRangeTracker(restriction)
    assert [tracker.try_claim(key) for key in claims] == answers


@pytest.mark.parametrize(
    "key", ["\x14", 20, None, bytearray(b"\x14"), memoryview(b"\x14")], ids=lambda k: type(k).__name__
)
def test_claim_of_what_is_no_bytes_raises(key):
    """A key is bytes."""
    with pytest.raises(ClaimError, match=re.escape("try_claim() positions must be bytes: got ")):
        tracker_at(keys("10", "20")).try_claim(key)


@pytest.mark.parametrize("key", [b"\x10", b"\x13\xff", b"\x14"])
def test_claim_that_does_not_increase_raises(key):
    """Strictly greater than the last attempt; the message has both."""
    message = f"try_claim() positions must increase: got {key!r} after {bytes([0x14])!r} in ByteKeyRange("
    with pytest.raises(ClaimError, match=re.escape(message)):
        tracker_at(keys("10", "20"), b"\x14").try_claim(key)


@pytest.mark.parametrize("claims", [(), (b"\x14",)])
def test_claim_before_the_start_raises(claims):
    """The range starts at its start."""
    message = rf"try_claim() positions must be >= the start: got {bytes([0x0F])!r} in ByteKeyRange("
    with pytest.raises(ClaimError, match=re.escape(message)):
        tracker_at(keys("10", "20"), *claims).try_claim(b"\x0f")


@pytest.mark.parametrize("refused", [b"", b"\x20", b"\xff"])
@pytest.mark.parametrize("key", [b"", b"\x15", b"\x20", b"\xff\xff"])
def test_claim_after_a_refused_claim_raises(refused, key):
    """Also after the empty key, which is where Java lets every key slip through."""
    message = f"try_claim({key!r}) after a refused claim of {refused!r} in ByteKeyRange("
    with pytest.raises(ClaimError, match=re.escape(message)):
        tracker_at(keys("10", "20"), b"\x14", refused).try_claim(key)


@pytest.mark.parametrize("claims", [(), (b"\x14",), (b"\x14", b"\x20")])
@pytest.mark.parametrize("key", [b"\x0f", "text", None])
def test_a_bad_claim_changes_nothing(claims, key):
    """State changes only after the checks pass."""
    tracker = tracker_at(keys("10", "20"), *claims)
    before = state_of(tracker)
    assert (error_text(tracker.try_claim, key) is None, state_of(tracker)) == (False, before)


# check_done


@pytest.mark.parametrize(
    ("restriction", "claims"),
    [
        (keys("10", "10"), []),
        (ByteKeyRange(b"", b"\x00"), []),
        (keys("10", "20"), [b""]),
        (keys("10", "20"), [b"\x14", b"\x20"]),
        (keys("10", "20"), [b"\x30"]),
        (keys("10", "1000"), [b"\x10"]),
        (keys("10", "1400"), [b"\x14"]),
        (keys("10", ""), [b"\xff", b""]),
        (ByteKeyRange(), [b""]),
        (ByteKeyRange(b"", b"\x00\x00"), [b"\x00"]),
    ],
)
def test_done(restriction, claims):
    """Done is: empty, or the empty key was attempted, or nothing can follow the last key before the stop."""
    assert error_text(tracker_at(restriction, *claims).check_done) is None


@pytest.mark.parametrize(
    ("restriction", "claims", "unclaimed"),
    [
        (keys("10", "20"), [], keys("10", "20")),
        (keys("10", "20"), [b"\x14"], keys("1400", "20")),
        (keys("10", "20"), [b"\x1f\xff\xff\xff"], keys("1fffffff00", "20")),
        (keys("10", ""), [b"\xff" * 4], keys("ffffffff00", "")),
        (ByteKeyRange(), [], ByteKeyRange()),
        (ByteKeyRange(), [b"a"], ByteKeyRange(b"a\x00", b"")),
    ],
)
def test_not_done_names_what_is_unclaimed(restriction, claims, unclaimed):
    """With an open stop only claiming the empty key will do."""
    message = f"{unclaimed!r} of {restriction!r} is unclaimed, that work would be lost."
    with pytest.raises(UnclaimedWorkError, match=re.escape(message)):
        tracker_at(restriction, *claims).check_done()


# Splits


@pytest.mark.parametrize(
    ("restriction", "claims", "fraction", "cut"),
    [
        (keys("10", "20"), [], 0.5, "18"),
        (keys("10", "20"), [b"\x14"], 0.5, "1a"),
        (keys("10", "20"), [b"\x14"], 0, "1400"),
        (ByteKeyRange(), [], 0.25, "40"),
        (ByteKeyRange(), [], 0.5, "80"),
        (keys("ff", ""), [], 0.5, "ff80"),
        (keys("ffff", ""), [], 0.5, "ffff80"),
        (keys("10", "11"), [], 0.5, "1080"),
        (keys("", "01"), [], 0.5, "0080"),
        (keys("", "0100"), [], 0.5, "0080"),
        (keys("1000", "1001"), [], 0.5, "100080"),
        (keys("10", "20"), [], 0, "10"),
        (keys("10", "20"), [], 0.25, "14"),
    ],
)
def test_split_table(restriction, claims, fraction, cut):
    """The table of section 5, in hex, and more of its kind."""
    at = bytes.fromhex(cut)
    expected = (ByteKeyRange(restriction.start, at), ByteKeyRange(at, restriction.stop))
    assert tracker_at(restriction, *claims).try_split(fraction) == expected


def test_split_of_all_keys_before_the_first_is_empty_and_all():
    """Planning at 0: the primary is the canonical empty range, for b"" as a stop would mean all keys."""
    assert tracker_at(ByteKeyRange()).try_split(0) == (ByteKeyRange(b"", b"\x00"), ByteKeyRange())


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize(
    ("restriction", "claims"),
    [
        (keys("10", "10"), []),
        (ByteKeyRange(b"", b"\x00"), []),
        (keys("10", "20"), [b""]),
        (keys("10", "20"), [b"\x20"]),
        (ByteKeyRange(), [b"a", b""]),
        (keys("10", "1400"), [b"\x14"]),
        (keys("10", "1000"), [b"\x10"]),
    ],
)
def test_nothing_to_split(restriction, claims, fraction):
    """None if empty, refused, or nothing can follow the last key before the stop."""
    tracker = tracker_at(restriction, *claims)
    assert (tracker.try_split(fraction), tracker.current_restriction()) == (None, restriction)


@pytest.mark.parametrize("restriction", [keys("10", "20"), keys("10", ""), ByteKeyRange()], ids=repr)
@pytest.mark.parametrize("claims", [[], [b"\x14"]])
def test_split_at_1_is_none(restriction, claims):
    """The primary would keep all of it."""
    assert tracker_at(restriction, *claims).try_split(1) is None


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan, math.inf, None, "half"], ids=repr)
@pytest.mark.parametrize("claims", [[], [b"\x14"], [b""]])
def test_split_at_a_bad_fraction_raises(claims, fraction):
    """NaN and outside [0, 1] raise, whatever the state."""
    message = f"try_split() fraction_of_remainder must lie in [0, 1] (got {fraction!r})."
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        tracker_at(keys("10", "20"), *claims).try_split(fraction)


def test_repeated_splits_refer_to_the_shrunk_range():
    """Each split cuts what the one before left."""
    tracker = tracker_at(keys("10", "20"), b"\x10")
    assert [tracker.try_split(0.5)[0].stop.hex()[:3] for _ in range(4)] == ["18", "14", "12", "11"]


def test_a_cut_never_falls_below_keys_that_end_in_zeros():
    """Dropping trailing zeros of the cut must not put what is claimed into the residual."""
    claimed = b"\x14" + b"\x00" * 20
    (_, cut), _ = tracker_at(keys("10", "20"), claimed).try_split(1e-30)
    assert cut > claimed


def test_a_cut_that_rounds_down_to_the_claimed_key_is_its_successor():
    """[10, 1401) at 14: so small a share of what is left is none, and without its zeros the cut would be 14."""
    assert tracker_at(keys("10", "1401"), b"\x14").try_split(1e-30) == (keys("10", "1400"), keys("1400", "1401"))


def test_a_split_between_long_keys_with_one_prefix_is_precise():
    """The precision is counted after the common prefix."""
    prefix = b"tenant/0001/" * 10
    tracker = ByteKeyRangeTracker(ByteKeyRange(prefix + b"\x10", prefix + b"\x20"))
    assert tracker.try_split(0.5)[0].stop == prefix + b"\x18"


def split_states():
    """Give every small range with every key of it claimed, and unclaimed."""
    for restriction in RANGES:
        for key in [None, *KEYS]:
            if key is None or inside(key, restriction):
                yield restriction, key


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_every_small_split_tiles(fraction):
    """Over every small range and key claimed: primary and residual tile the range, and the claimed key stays."""
    wrong, splits = [], 0
    for restriction, key in split_states():
        tracker = tracker_at(restriction, *([] if key is None else [key]))
        pair = tracker.try_split(fraction)
        if pair is None:
            if tracker.current_restriction() != restriction:
                wrong.append((restriction, key))
            continue
        splits += 1
        primary, residual = pair
        kept = key is None or inside(key, primary)
        if (
            not restriction.is_tiled_by(pair)
            or not kept
            or residual.is_empty()
            or tracker.current_restriction() != primary
        ):
            wrong.append((restriction, key))
    assert wrong == []
    assert splits > 0 or fraction == 1


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_every_small_split_puts_each_key_on_one_side(fraction):
    """Over every small range and key claimed: each small key of the range lies in the primary or the residual."""
    wrong = []
    for restriction, key in split_states():
        pair = tracker_at(restriction, *([] if key is None else [key])).try_split(fraction)
        wrong += [
            (restriction, key, one)
            for one in (KEYS if pair else ())
            if inside(one, restriction) is not (inside(one, pair[0]) ^ inside(one, pair[1]))
        ]
    assert wrong == []


def test_every_small_checkpoint_cuts_at_the_next_key():
    """Over every small range and key claimed: 0 cuts at the key's successor, or not at all."""
    wrong = []
    for restriction, key in split_states():
        if key is None:
            continue
        pair = tracker_at(restriction, key).try_split(0)
        after = key + b"\x00"
        expected = (ByteKeyRange(restriction.start, after), ByteKeyRange(after, restriction.stop))
        if pair != (expected if not restriction.stop or after < restriction.stop else None):
            wrong.append((restriction, key))
    assert wrong == []


def test_every_small_primary_is_done_after_a_checkpoint():
    """Over every small range and key claimed: after a split at 0 all is claimed."""
    wrong = []
    for restriction, key in split_states():
        tracker = tracker_at(restriction, *([] if key is None else [key]))
        if tracker.try_split(0) is not None and error_text(tracker.check_done) is not None:
            wrong.append((restriction, key))
    assert wrong == []


def test_reading_races_with_splitting():
    """While one thread reads and another splits, each key is claimed once over the primary and the residuals."""
    table = [bytes([one, two]) for one in range(16) for two in range(16)]
    splits, wrong = 0, []
    for trial in range(100):
        tracker = ByteKeyRangeTracker(ByteKeyRange())
        claimed, residuals = [], []
        both = threading.Barrier(2)

        def read(tracker=tracker, claimed=claimed, both=both):
            both.wait()
            for key in table:
                if not tracker.try_claim(key):
                    break
                claimed.append(key)
            else:
                tracker.try_claim(b"")
            tracker.check_done()

        reader = threading.Thread(target=read)
        reader.start()
        both.wait()
        while reader.is_alive():
            pair = tracker.try_split(0.9)
            if pair is not None:
                residuals.append(pair[1])
        reader.join()
        splits += len(residuals)
        rest = [key for residual in reversed(residuals) for key in table if inside(key, residual)]
        if claimed + rest != table:
            wrong.append(trial)
    assert wrong == []
    assert splits > 0


# Progress


@pytest.mark.parametrize(
    ("restriction", "claims", "progress"),
    [
        (keys("10", "10"), [], Progress(0, 0)),
        (ByteKeyRange(b"", b"\x00"), [], Progress(0, 0)),
        (keys("10", "20"), [], Progress(0, 1)),
        (keys("10", "20"), [b"\x14"], Progress(0.25, 0.75)),
        (keys("10", "20"), [b"\x10"], Progress(0, 1)),
        (keys("10", "20"), [b""], Progress(1, 0)),
        (keys("10", "20"), [b"\x20"], Progress(1, 0)),
        (ByteKeyRange(), [b"\x40"], Progress(0.25, 0.75)),
        (ByteKeyRange(), [b"\x40", b""], Progress(1, 0)),
        (keys("ff", ""), [b"\xff\x80"], Progress(0.5, 0.5)),
        (ByteKeyRange(b"\x10", b"\x10\x00"), [b"\x10"], Progress(0, 1)),
    ],
)
def test_progress(restriction, claims, progress):
    """The share of the key space done and left; keys that are equal after padding give 0.0."""
    assert tracker_at(restriction, *claims).progress() == progress


def test_every_small_progress_lies_in_0_to_1():
    """Over every small range and key claimed: two numbers >= 0 that make 1, or an empty range."""
    wrong = []
    for restriction, key in split_states():
        progress = tracker_at(restriction, *([] if key is None else [key])).progress()
        total = progress.completed + progress.remaining
        if min(progress.completed, progress.remaining) < 0 or total != (0 if restriction.is_empty() else 1):
            wrong.append((restriction, key))
    assert wrong == []


def test_byte_keys_are_bounded():
    """Work with an open stop still ends, at the last key."""
    assert ByteKeyRangeTracker(ByteKeyRange()).is_bounded() is True


# Defer


@pytest.mark.parametrize(
    ("claims", "residual"),
    [([b"\x14"], keys("1400", "20")), ([], keys("10", "20"))],
)
def test_defer_gives_the_rest(claims, residual):
    """defer_remainder() is try_split(0)."""
    assert tracker_at(keys("10", "20"), *claims).defer_remainder() == residual


def test_defer_of_nothing():
    """Nothing left to defer is no error."""
    assert tracker_at(keys("10", "1400"), b"\x14").defer_remainder() is None


@pytest.mark.parametrize("refused", [b"", b"\x20"])
def test_defer_after_a_refused_claim_raises(refused):
    """After a refusal nothing is the attempt's to defer."""
    message = "defer_remainder() after a refused claim in ByteKeyRange("
    with pytest.raises(DeferError, match=re.escape(message)):
        tracker_at(keys("10", "20"), refused).defer_remainder()


@pytest.mark.parametrize("delay", [-1, math.nan, math.inf, "5", None])
def test_defer_with_a_bad_delay_raises(delay):
    """The delay is a finite number >= 0."""
    with pytest.raises(InvalidValueError, match=re.escape(f"must be finite and >= 0 (got {delay!r}).")):
        tracker_at(keys("10", "20")).defer_remainder(delay)


# The older words


def reader_at(*records):
    """Return a tracker of [10, 20) hex that returned these (is_at_split_point, key) records."""
    tracker = ByteKeyRangeTracker(keys("10", "20"))
    for is_at_split_point, key in records:
        tracker.try_return_record_at(is_at_split_point, key)
    return tracker


@pytest.mark.parametrize(
    ("records", "answers"),
    [
        ([(True, b"\x10"), (False, b"\x10"), (False, b"\x12")], [True, True, True]),
        ([(True, b"\x14"), (False, b"\x30"), (True, b"\x30")], [True, True, False]),
        ([(True, b"\x14"), (False, b"\x16"), (True, b"\x16")], [True, True, True]),
        ([(True, b"\x20")], [False]),
        ([(True, b"")], [False]),
        ([(True, b"\x0f"), (True, b"\x10")], [False, True]),
        ([(True, b"\x20"), (True, b"\x30"), (True, b"\x20"), (True, b"\x0f")], [False] * 4),
    ],
)
def test_try_return_record_at(records, answers):
    """At a split point it is a claim, or outside the range and not ours; one inside a block is ours, past the stop."""
    tracker = ByteKeyRangeTracker(keys("10", "20"))
    assert [tracker.try_return_record_at(*record) for record in records] == answers


@pytest.mark.parametrize(
    ("before", "record", "message"),
    [
        ([], (False, b"\x14"), "needs a split point before it"),
        ([(True, b"\x14")], (False, b"\x13"), "must not precede"),
        ([(True, b"\x14"), (False, b"\x16")], (False, b"\x15"), "must not precede"),
        ([(True, b"\x20")], (False, b"\x21"), "comes after a refused record"),
        ([(True, b"")], (False, b"\x21"), "comes after a refused record"),
        ([(True, b"\x14"), (False, b"\x16")], (True, b"\x15"), "positions must increase"),
        ([(True, b"\x14")], (False, "x"), "positions must be bytes"),
    ],
)
def test_try_return_record_at_out_of_order_raises(before, record, message):
    """A record before its split point, or before the last record, or after a refusal, raises."""
    tracker = reader_at(*before)
    with pytest.raises(ClaimError, match=message):
        tracker.try_return_record_at(*record)


@pytest.mark.parametrize(
    ("records", "key", "answer"),
    [
        ([(True, b"\x14")], b"\x13", False),
        ([(True, b"\x14")], b"\x14", False),
        ([(True, b"\x14")], b"\x14\x00", True),
        ([(True, b"\x14")], b"\x18", True),
        ([(True, b"\x14")], b"\x20", False),
        ([(True, b"\x14")], b"\x30", False),
        ([(True, b"\x14")], b"", False),
        ([], b"\x18", False),
        ([(True, b"\x20")], b"\x18", False),
        ([(True, b"\x14"), (False, b"\x18")], b"\x18", False),
        ([(True, b"\x14"), (False, b"\x18")], b"\x19", True),
    ],
)
def test_try_split_at_position(records, key, answer):
    """True iff something was returned and the key is after the last consumed and before the stop."""
    tracker = reader_at(*records)
    assert (tracker.try_split_at_position(key), tracker.stop_position()) == (answer, key if answer else b"\x20")


def test_split_at_position_of_an_open_range():
    """A range without a stop can be cut."""
    tracker = tracker_at(ByteKeyRange(), b"a")
    assert (tracker.try_split_at_position(b"m"), tracker.current_restriction()) == (True, ByteKeyRange(b"", b"m"))


def test_split_at_what_is_no_bytes_raises():
    """A key is bytes."""
    with pytest.raises(InvalidTypeError, match=re.escape("try_split_at_position() needs bytes (got 24).")):
        tracker_at(keys("10", "20"), b"\x14").try_split_at_position(24)


@pytest.mark.parametrize(
    ("records", "consumed"),
    [
        ([], 0.0),
        ([(True, b"\x10")], 0.0),
        ([(True, b"\x14")], 0.25),
        ([(True, b"\x14"), (False, b"\x18")], 0.5),
        ([(True, b"\x14"), (False, b"\x30")], 1.0),
        ([(True, b"\x14"), (True, b"\x20")], 1.0),
        ([(True, b"")], 1.0),
    ],
)
def test_fraction_consumed(records, consumed):
    """0.0 before the first record, 1.0 once refused."""
    assert reader_at(*records).fraction_consumed() == consumed


def test_a_split_cuts_after_the_last_record():
    """A record inside a block moves the consumed key."""
    assert reader_at((True, b"\x14"), (False, b"\x18")).try_split(0) == (keys("10", "1800"), keys("1800", "20"))


def test_start_position_never_moves():
    """Not to the first record."""
    tracker = reader_at((True, b"\x14"))
    assert (tracker.start_position(), tracker.stop_position()) == (b"\x10", b"\x20")


@pytest.mark.parametrize(
    ("claims", "started", "refused"),
    [([], False, False), ([b"\x14"], True, False), ([b""], True, True), ([b"\x20"], True, True)],
)
def test_started_and_refused(claims, started, refused):
    """Any attempted claim is a start; only a refused one is a refusal."""
    tracker = tracker_at(keys("10", "20"), *claims)
    assert (tracker.started, tracker.refused) == (started, refused)
