"""What a reader asks first: each question with a chart, a sentence, and the commands that measure it again.

Each function takes the results by name, and returns None where what it needs was not measured. All figures, also those
in sentences, come from the results.
"""

import math
import re

import attrs
from charts import Bar, Bars, Cell, Grid, Plot, bars, grids, key, plot, side_by_side, stacked
from peerreasons import reason_for
from skew import BY_HAND, LIVE, PLAIN, STAGED, WAYS

COLOURS = {LIVE: "live", STAGED: "staged", BY_HAND: "hand", PLAIN: "plain"}
CALLED = {"lanes: 1": "sdf, 1 lane", "lanes: 2": "sdf, 2 lanes", "32 per slot by hand": BY_HAND}
OURS = ("sdf", "lanes", "claim, the tracker", "claim, as process()", "record, through")  # how its ways begin
LIBRARY = "library, one process"
TITLE_OF_SKEW = re.compile(r"(?P<slots>\d+ slots that \w+), (?P<seconds>[\d.]+) s of work each")


@attrs.frozen
class Answer:
    """A section of the page.

    Attributes:
        name: of the chart's file.
        says: one sentence, what is to be seen in the chart.
        chart: as SVG.
        again: the commands that measure it again, each with the commit of the results shown.
        more: what stands beneath the chart, as Markdown.
    """

    name: str
    question: str
    says: str
    chart: str
    again: list[str]
    more: str = ""


def rows_of(found, title):
    """Return the rows of the table that has this in its title."""
    return next(table["rows"] for table in found["tables"] if title in table["title"])


def number(value):
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def again(found, python="python"):
    command = re.sub(r"^python | --results \S+", "", found["command"])
    return f"{python} {command}  # here at {found['commit']}"


def span(values):
    return f"{number(min(values))} to {number(max(values))}"


def ideal(results):
    """A grid for each machine: kinds of work down, ways and seconds per slot across."""
    commands, measured = [], {}
    for name, found in results.items():
        if name.startswith("skew") and "-busy-" not in name:
            table = found["tables"][0]
            told = TITLE_OF_SKEW.match(table["title"])
            commands.append(again(found))
            for work, _, *overs in table["rows"]:
                for way, over in zip(table["columns"][2:], overs, strict=True):
                    column = WAYS.index(way), float(told["seconds"])
                    measured.setdefault(told["slots"], {}).setdefault(work, {})[column] = over
    if not measured:
        return None

    def cell(over):
        return None if over is None else Cell(number(over), "behind", math.sqrt(math.log(max(over, 1)) / math.log(4)))

    drawn, worst = [], {}
    for slots, rows in measured.items():
        columns = sorted({column for row in rows.values() for column in row})
        heads = [(WAYS[way], f"{seconds:g} s") for way, seconds in columns]
        drawn.append(Grid(slots, heads, {work: [cell(row.get(at)) for at in columns] for work, row in rows.items()}))
        for way, seconds in columns:
            overs = [row[way, seconds] for row in rows.values() if (way, seconds) in row]
            worst.setdefault(WAYS[way], {}).setdefault(seconds, []).extend(overs)

    def slowest(way):
        return ", ".join(f"{number(max(overs))} at {seconds:g} s" for seconds, overs in sorted(worst[way].items()))

    return Answer(
        "ideal",
        "How close to the ideal does a run come?",
        "The slowest kind of work takes, times the ideal and by the seconds of work per slot: "
        + "; ".join(f"with {way} {slowest(way)}" for way in reversed(WAYS) if way in worst)
        + ".",
        stacked("Time of a run over the ideal, by seconds of work per slot: 1.00 is the ideal", grids(drawn)),
        commands,
        "The ideal: the same blocks of work, as many of each kind to each slot, dealt out by hand. "
        f"`{BY_HAND}`: each element is cut by hand, into 32 even pieces per slot.",
    )


def beside_peers(results):
    """A grid: ways down, jobs across; and a table of where one of them is ahead."""
    if "peers" not in results:
        return None
    found, ratios, ahead = results["peers"], {}, {}
    jobs = [table["title"].split(", ")[0] for table in found["tables"]]
    for job, table in zip(jobs, found["tables"], strict=True):
        for way, _, _, ratio, why_not in table["rows"]:
            if way == "ideal" or way.startswith("sdf"):
                continue
            ratios.setdefault(way, {})[job] = ratio, why_not
            if ratio is not None and ratio < 1 and not why_not:
                ahead.setdefault((job, reason_for(table["title"], way)), []).append(f"{way} {number(ratio)}")

    def cell(ratio, why_not):
        if ratio is None:
            return Cell("none", "ahead", 0)
        depth = 0.2 + 0.8 * abs(math.log(ratio)) / math.log(20)
        return Cell(f"> {number(ratio)}" if why_not else number(ratio), "behind" if ratio < 1 else "ahead", depth)

    libraries = [way.split(",")[0] for way in ratios]
    ways = sorted(ratios, key=lambda way: (libraries.index(way.split(",")[0]), way))
    cells = {way: [cell(*row[job]) if job in (row := ratios[way]) else None for job in jobs] for way in ways}
    told = [ratio for row in ratios.values() for ratio, _ in row.values() if ratio is not None]
    behind = sum(map(len, ahead.values()))
    says = f"sdf is faster than its peers in {len(told) - behind} of {len(told)} rows, up to {number(max(told))} times"
    if behind:
        says += f"; in the other {behind} it takes up to {number(1 / min(told))} times as long as the peer"
    return Answer(
        "peers",
        "Where does it stand beside its peers?",
        f"{says}.",
        stacked(
            "Time of each way over the time of sdf: above 1 sdf is faster, orange is where the peer is",
            grids([Grid("", [("", job) for job in jobs], cells)]),
        ),
        [again(found)],
        "All are warm, sdf runs with LiveRunner, and `cut by hand` is a program that cuts its work into even pieces "
        "itself. `benchmarks/peers.py` says how each was measured, `benchmarks/peerprograms.py` has the programs. "
        + found["notes"][0]
        + reasons(ahead),
    )


def reasons(ahead):
    """Return a table of where peers are ahead, or "" if nowhere; ``ahead`` maps (job, reason) to the ways."""
    if not ahead:
        return ""
    lines = [f"| {job} | {'; '.join(ways)} | {reason} |" for (job, reason), ways in ahead.items()]
    return "\n".join(["\n", "| job | ahead of sdf, with its time over sdf's | why |", "|---|---|---|", *lines])


def grows_with_elements(results):
    """Lines: seconds over elements; a panel for each measurement."""
    if "growth" not in results:
        return None
    of = [results["growth"], *(found for name, found in results.items() if name.startswith("growth-elements-"))]
    times, sizes, runs = [], [], []
    for found in of:
        lines, held = {}, {}
        for what, seconds, _, megabytes, *_ in rows_of(found, "elements that"):
            count, _, runner = what.partition(" elements, ")
            elements = int(count.replace(",", ""))
            lines.setdefault(runner, []).append((elements, seconds, f"{number(seconds)} s"))
            held.setdefault(runner, []).append((elements, megabytes, f"{megabytes:.0f} MB"))
        for plots, told, unit in ((times, lines, "s"), (sizes, held, "MB")):
            by_colour = {COLOURS[runner]: line for runner, line in told.items()}
            plots.append(Plot(f"measured at {found['commit']}", "elements", f"{{:g}} {unit}", by_colour))
        runs.append([(live[0], live[1], staged[1]) for live, staged in zip(lines[LIVE], lines[STAGED], strict=True)])
    few, live, staged = runs[0][0]
    each = [f"of {many:,} each takes {a / many * 1e6:.1f} and {b / many * 1e6:.1f} µs" for *_, (many, a, b) in runs]
    return Answer(
        "elements",
        "How does it grow with the number of elements?",
        f"{few:,} elements take {live:.1f} s with LiveRunner and {staged:.1f} s with StagedRunner; {', '.join(each)}.",
        stacked(
            "A run of elements that do next to nothing, on 2 slots: seconds, and the driver's memory",
            [
                key({LIVE: COLOURS[LIVE], STAGED: COLOURS[STAGED]}),
                side_by_side(plot, times),
                side_by_side(plot, sizes),
            ],
        ),
        list(map(again, of)),
    )


def grows_with_slots(results):
    """Lines: time over the ideal, over slots; a panel for each world."""
    of = [found for name, found in results.items() if name.startswith("simulate")]
    if not of:
        return None
    plots, sentences = [], []
    for found in of:
        table = found["tables"][0]
        world = table["title"].partition("Pareto ")[2].partition(", ")[2]
        ways = {}
        for way, slots, over, *_ in table["rows"]:
            ways.setdefault(CALLED.get(way, way), []).append((slots, over, number(over)))
        plots.append(Plot(world, "slots", "{:g}", {COLOURS[way]: ways[way] for way in WAYS if way in ways}))
        most = max(slots for row in ways.values() for slots, _, _ in row)
        worst = {way: number(max(over for _, over, _ in line)) for way, line in ways.items()}
        ours = " and ".join(f"{worst[way]} with {way}" for way in (LIVE, STAGED) if way in ways)
        sentences.append(f"on up to {most:,} slots, with {world}, it takes at most {ours}")
    return Answer(
        "slots",
        "How does it grow with the number of slots?",
        f"A simulated run, times the ideal: {'; '.join(sentences)}.",
        stacked(
            "Time of a simulated run over the ideal",
            [key({way: COLOURS[way] for way in WAYS}), side_by_side(plot, plots)],
        ),
        list(map(again, of)),
        "The planner and the coordinator are the real ones; slots, network and Spark are simulated.",
    )


def bars_of(title, rows):
    """Return bars of (way, value, what it says)."""
    coloured = [COLOURS.get(way.split(",")[0], "live" if way.startswith(OURS) else "plain") for way, *_ in rows]
    return Bars(title, [Bar(CALLED.get(row[0], row[0]), *row[1:], c) for row, c in zip(rows, coloured, strict=True)])


def costs(results):
    """Bars: a claim, a record, lines of a file, outputs of a DoFn."""
    if not {"claims", "throughput"} <= {*results}:
        return None
    commands = [again(results["claims"]), again(results["throughput"])]
    alone = dict(results["claims"]["tables"][0]["rows"])
    ours, beams = "claim, as process() calls it", "claim, Beam"
    record, bare = "record, through the invoker", "record, a bare generator"

    def nanoseconds(title, told):
        return bars_of(title, [(way, ns, f"{ns:.0f} ns") for way, ns in told.items()])

    panels, beside = [nanoseconds("a claim, a record", alone)], ""
    if "claims-beside-beam" in results:
        found = results["claims-beside-beam"]
        commands.append(again(found, "PYTHONPATH=. build/peers/bin/python"))
        told = dict(found["tables"][0]["rows"])
        panels.append(nanoseconds("a claim, in a Python that has Beam", {way: told[way] for way in (ours, beams)}))
        beside = f" ({number(told[ours] / told[beams])} times one of Beam's)"
    for table in results["throughput"]["tables"]:
        rows = [(way, s, f"{s:.2f} s, {number(rate)} {table['columns'][2]}") for way, s, rate, *_ in table["rows"]]
        panels.append(bars_of(table["title"].partition(", summed up")[0], rows))
    lines, outputs = ({row[0]: row[3] for row in table["rows"]} for table in results["throughput"]["tables"])
    return Answer(
        "costs",
        "What does a claim cost, and a record?",
        f"A claim takes {alone[ours]:.0f} ns{beside} and the invoker adds {alone[record] - alone[bare]:.0f} ns to a "
        f"record; LiveRunner reads lines at {number(lines[LIVE])} times the speed of sc.textFile, and counts outputs "
        f"at {number(outputs[LIVE])} times that of a plain flatMap with the same tracker, StagedRunner, which stores "
        f"them, at {number(outputs[STAGED])} times.",
        stacked("What it takes: a shorter bar is better; the coloured ones are sdf's", [side_by_side(bars, panels)]),
        commands,
    )


def connectors(results):
    """Bars: seconds to read a file of each format."""
    if "connectors" not in results:
        return None
    found, panels, one_lane, two_lanes = results["connectors"], [], [], []
    for table in found["tables"]:
        seconds = {row[0]: row[1] for row in table["rows"] if row[0] != "library, two at once"}  # each reads all
        panels.append(bars_of(table["title"], [(way, s, f"{s:.2f} s") for way, s in seconds.items()]))
        lanes = [s for way, s in seconds.items() if "lane" in way]
        two_lanes += [lanes[0] / lanes[1]] if lanes else []
        one_lane += [seconds[LIBRARY] / lanes[0]] if LIBRARY in seconds else []
    return Answer(
        "connectors",
        "What does it cost to read real files?",
        f"One lane of sdf reads at {span(one_lane)} times the speed of the library alone, and two lanes at "
        f"{span(two_lanes)} times that of one, by format.",
        stacked(
            "Seconds to read one file: a shorter bar is better; the coloured ones are sdf's",
            [side_by_side(bars, panels)],
        ),
        [again(found)],
        "`library`: the library that the connector reads with, in a process of its own.",
    )


QUESTIONS = [ideal, beside_peers, grows_with_elements, grows_with_slots, costs, connectors]
