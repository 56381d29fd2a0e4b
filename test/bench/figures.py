#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares results of nixl_bench, and draws them.

    nixl_bench compare [--threshold PERCENT] [--all] [--check] OLD.json NEW.json
    nixl_bench plot [--title TEXT] RESULTS.json... PICTURE

It reads what `nixl_bench --json` prints, of one run or of several one after another; `-` is
standard input. Pictures need matplotlib.
"""

import argparse
import html
import io
import json
import math
import os
import statistics
import sys

from noise import FALSE_SHARE, MIN_RUNS, Difference, error_of, raise_variances
from noise import highest_chance, least_change

PROGRAM = "nixl_bench"
KINDS = (".svg", ".png", ".html")
EXIT_SLOWER, EXIT_USAGE = 1, 2
OTHER_CORES = 1.4  # between the ways of a flag in two runs: the two cores are others
LIMITS_WITHOUT_DATA = ("flag", "futex")  # which have no bandwidth
DEBIAN_PYTHON = "/usr/bin/python3"  # has the distribution's packages, where another comes first


def die(text):
    print(f"{PROGRAM}: {text}", file=sys.stderr)
    sys.exit(EXIT_USAGE)


def read_objects(path):
    """All JSON that stands in a file, one after another."""
    decoder, objects, at = json.JSONDecoder(), [], 0
    try:
        with sys.stdin if path == "-" else open(path, encoding="utf-8") as file:
            text = file.read().strip()
        while at < len(text):
            value, end = decoder.raw_decode(text, at)
            objects.append(value)
            at = end + len(text[end:]) - len(text[end:].lstrip())
    except OSError as error:
        die(f"'{path}': {error.strerror}")
    except ValueError as error:
        die(f"'{path}' is no JSON ({error}); write it by `{PROGRAM} ... --json >{path}'")
    return objects


def read_runs(path):
    """The objects that runs have printed; what is none ends the program with a line."""
    runs = read_objects(path)
    wanted = ("test", "what", "ranks", "bytes", "unit", "median")
    for run in runs or [None]:
        rows = run.get("rows") if isinstance(run, dict) else None
        if not isinstance(rows, list) or not all(
            isinstance(row, dict) and all(name in row for name in wanted) for row in rows
        ):
            die(f"'{path}' is no result of {PROGRAM}; write it by `{PROGRAM} ... --json >{path}'")
    return runs


def key_of(row):
    names = ("test", "what", "ranks", "bytes", "dst_offset", "src_offset", "unit")
    return tuple(row.get(name) for name in names)


def rows_of(runs):
    """{key: the row of each run that has it}"""
    rows = {}
    for run in runs:
        for key, row in {key_of(row): row for row in run["rows"]}.items():
            rows.setdefault(key, []).append(row)
    return rows


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def middle_of(rows):
    """One row of several: each number is the median of theirs, and what is none is the last's."""
    middle = dict(rows[-1])
    for name in middle:
        values = [row[name] for row in rows if is_number(row.get(name))]
        if values and is_number(middle[name]):
            middle[name] = statistics.median(values)
    return middle


def read_results(path):
    """One result: that of the run, or the middle of several."""
    runs = read_runs(path)
    if len(runs) == 1:
        return runs[0]
    return dict(runs[-1], rows=[middle_of(rows) for rows in rows_of(runs).values()])


# ---- numbers for people --------------------------------------------------------------------------


def in_bytes(n):
    for name in ("", " KiB", " MiB", " GiB"):
        if n < 1024 or n % 1024 or name == " GiB":
            return f"{n:.0f}{name}"
        n //= 1024
    return ""


def in_unit(value, unit):
    if unit != "ns":
        return f"{value:.2f} {unit}"
    for name in ("ns", "us", "ms", "s"):
        if value < 1000 or name == "s":
            return f"{value:.3g} {name}"
        value /= 1000
    return ""


# ---- compare -------------------------------------------------------------------------------------


def is_rate(row):
    return row["unit"] == "1/s"


def values_of(rows, value_of):
    values = [value_of(row) for row in rows]
    return values if all(is_number(value) and value > 0 for value in values) else []


def ratio_of(row):
    """To the limit, which was measured beside it; None without one."""
    return row["median"] / row["limit"] if row.get("limit") else None


class Pair:
    """A row of the old runs and of the new ones. Changes are times: above 1 is slower.

    What moves the machine moves the row and its limit, which were measured in turns. So it is their
    ratio that is tested, unless it is noisier than the row.
    """

    def __init__(self, old, new):
        self.runs = (old, new)
        self.old, self.new = middle_of(old), middle_of(new)
        self.n_runs = min(len(old), len(new))
        self.change = self.change_of(lambda row: row["median"]) or 1.0
        self.limit_change = self.change_of(lambda row: row.get("limit"))
        self.alone = self.difference_of(lambda row: row["median"])
        beside = self.difference_of(ratio_of)
        is_better = beside is not None and beside.variance < self.alone.variance
        self.difference = beside if is_better else self.alone

    def change_of(self, value_of):
        old, new = (values_of(rows, value_of) for rows in self.runs)
        if not old or not new or self.old.get("limit_name") != self.new.get("limit_name"):
            return None
        change = statistics.median(new) / statistics.median(old)
        return 1 / change if is_rate(self.old) else change

    def difference_of(self, value_of):
        """None: too few runs, or a row without such values."""
        old, new = (values_of(rows, value_of) for rows in self.runs)
        if min(len(old), len(new)) < MIN_RUNS or self.change_of(value_of) is None:
            return None
        rows = self.runs[0] + self.runs[1]
        errors = [error_of(row.get("median_low"), row.get("median_high")) for row in rows]
        return Difference(old, new, errors)

    def is_of_machine(self, threshold):
        """Did the cores lie otherwise to each other, or has the limit moved as the row did?"""
        flags = [row.get("flag_ns") or 0 for row in (self.old, self.new)]
        if min(flags) > 0 and max(flags) / min(flags) > OTHER_CORES:
            return True
        change = self.change_of(ratio_of)
        return change is not None and is_same(change if self.change > 1 else 1 / change, threshold)

    def verdict(self, threshold, highest):
        """"slower", "faster", "machine", "" for nothing, None for too few runs."""
        if is_same(max(self.change, 1 / self.change), threshold):
            return ""
        if self.n_runs < MIN_RUNS:
            return None
        if self.difference is None:
            return ""
        if self.difference.chance() > highest and self.alone.chance() > highest:
            return ""
        if self.is_of_machine(threshold):
            return "machine"
        if self.difference.chance() > highest:
            return ""
        return "slower" if self.change > 1 else "faster"


def is_same(change, threshold):
    return change < 1 + threshold


def in_runs(n):
    return "1 run" if n == 1 else f"{n} runs"


def print_pair(pair, verdict):
    old, new, spread = pair.old, pair.new, "-"
    if pair.difference is not None:
        spread = f"{math.expm1(pair.difference.half_interval()):.0%}"
    print(
        f"{new['what']:34.34} {in_bytes(new['bytes']) if new.get('has_bytes', True) else '':>8}"
        f" {in_unit(old['median'], old['unit']):>9} {in_unit(new['median'], new['unit']):>9}"
        f" {pair.change:6.2f} {spread:>6}"
        f" {f'{pair.limit_change:.2f}' if pair.limit_change else '-':>6}"
        f"  {in_runs(pair.n_runs) if verdict is None else verdict or 'same'}"
    )


def print_comparison(pairs, threshold, shows_all):
    """Returns how many rows have each verdict."""
    differences = [pair.difference for pair in pairs if pair.difference is not None]
    raise_variances(differences)
    highest = highest_chance(differences)
    counts = {"slower": 0, "faster": 0, "machine": 0, "": 0, None: 0}
    print(
        f"{'':34} {'bytes':>8} {'old':>9} {'new':>9} {'ratio':>6} {'+-':>6} {'limit':>6}  verdict"
    )
    for pair in sorted(pairs, key=lambda pair: -pair.change):
        verdict = pair.verdict(threshold, highest)
        counts[verdict] += 1
        if verdict != "" or shows_all:
            print_pair(pair, verdict)
    same = f"{counts['']} the same within {threshold:.0%} or within noise"
    print(
        f"\n{len(pairs)} rows: {counts['slower']} slower, {counts['faster']} faster, "
        f"{counts['machine']} as the machine itself (its limit, or its cores), {same}"
    )
    if differences:
        print(f"Half of the rows would show a change of {least_change(differences) - 1:.0%}.")
    return counts


def say_too_few(runs, arguments):
    """What to do where rows have no verdict."""
    n_runs = " and ".join(in_runs(len(some)) for some in runs)
    print(
        f"No verdict: {n_runs}; a change and noise can be told apart by {MIN_RUNS} or more "
        f"of each, better 5, the old and the new one in turns:\n"
        f"  {PROGRAM} ... --json >>{arguments.old}; {PROGRAM} ... --json >>{arguments.new}"
    )


def say_machines(old_runs, new_runs):
    for name in ("processor", "cores", "kernel"):
        values = [runs[-1].get("machine", {}).get(name) for runs in (old_runs, new_runs)]
        if values[0] != values[1]:
            print(f"The machines differ: {name} {values[0]} and {values[1]}")
    for name in ("fresh", "single", "hosts"):
        values = [runs[-1].get(name) for runs in (old_runs, new_runs)]
        if values[0] != values[1]:
            print(f"The runs differ: {name} {values[0]} and {values[1]}")
    dates = [[run.get("date") or "" for run in runs] for runs in (old_runs, new_runs)]
    if min(len(old_runs), len(new_runs)) >= MIN_RUNS and (
        "" < max(dates[0]) < min(dates[1]) or "" < max(dates[1]) < min(dates[0])
    ):
        print("The runs were not made in turns: what changed on the machine between them counts.")


def compare(arguments):
    runs = old_runs, new_runs = [read_runs(path) for path in (arguments.old, arguments.new)]
    old_rows, new_rows = rows_of(old_runs), rows_of(new_runs)
    pairs = [Pair(old_rows[key], rows) for key, rows in new_rows.items() if key in old_rows]
    if not pairs:
        die(f"'{arguments.old}' and '{arguments.new}' have no row in common")
    say_machines(old_runs, new_runs)
    counts = print_comparison(pairs, arguments.threshold / 100, arguments.all)
    is_too_few = all(pair.n_runs < MIN_RUNS for pair in pairs)
    if counts[None] or is_too_few:
        say_too_few(runs, arguments)
    alone = [len(rows) - len(pairs) for rows in (old_rows, new_rows)]
    if any(alone):
        print(f"only in '{arguments.old}': {alone[0]}, only in '{arguments.new}': {alone[1]}")
    if arguments.check and is_too_few:
        die(f"--check needs {MIN_RUNS} runs or more of each")
    return EXIT_SLOWER if arguments.check and counts["slower"] else 0


# ---- plot ----------------------------------------------------------------------------------------


def load_matplotlib():
    try:
        import matplotlib
    except ImportError:
        if sys.executable != DEBIAN_PYTHON and os.access(DEBIAN_PYTHON, os.X_OK):
            os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.argv])  # nothing was read so far
        die(
            "pictures need matplotlib for Python (Debian: python3-matplotlib; or "
            "`python3 -m pip install matplotlib')"
        )
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": PROGRAM, "font.size": 9})
    from matplotlib import pyplot

    return pyplot


def label_of(path, files):
    """Which of several files; by its name alone if that tells."""
    names = [os.path.basename(other) for other, _ in files]
    name = os.path.basename(path)
    return "" if len(files) == 1 else f"{name if names.count(name) == 1 else path}: "


def series_of(files):
    """{test: {label: rows by size}} of rows that have sizes and times, and the rest."""
    by_size, others = {}, []
    for path, results in files:
        for row in results["rows"]:
            label = label_of(path, files) + row["what"]
            if row["unit"] == "ns" and row.get("has_bytes") and row["bytes"] > 0:
                by_size.setdefault(row["test"], {}).setdefault(label, []).append(row)
            elif row["unit"] == "ns":
                others.append((label, row))
    for test in list(by_size):
        for rows in by_size[test].values():
            rows.sort(key=lambda row: row["bytes"])
    return by_size, others


def size_axis(axes, rows):
    sizes = sorted({row["bytes"] for row in rows})
    axes.set_xscale("log", base=2)
    labels = [in_bytes(size) + (" B" if size < 1024 else "") for size in sizes]
    axes.set_xticks(sizes, labels, rotation=45, ha="right")
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.grid(True, alpha=0.3)


def time_axis(axes):
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: in_unit(value, "ns"))
    low, high = axes.get_ylim()
    few = high / low < 30  # label the ticks between powers of ten, too
    axes.yaxis.set_minor_formatter(
        lambda value, _: in_unit(value, "ns") if few and f"{value:e}"[0] in "235" else ""
    )
    axes.tick_params(axis="y", which="minor", labelsize=6)


def draw_times(axes, test, series):
    """Latency against size: the median, a band from the least to p99, and the limit as a line."""
    for number, (label, rows) in enumerate(series.items()):
        colour, sizes = f"C{number % 10}", [row["bytes"] for row in rows]
        axes.plot(sizes, [row["median"] for row in rows], "o-", color=colour, label=label, ms=3)
        band = [row for row in rows if row.get("min") and row.get("p99")]
        axes.fill_between(
            [row["bytes"] for row in band],
            [row["min"] for row in band],
            [row["p99"] for row in band],
            color=colour,
            alpha=0.12,
        )
        draw_limit(axes, rows, colour, lambda row: row["limit"])
    size_axis(axes, [row for rows in series.values() for row in rows])
    time_axis(axes)
    axes.set_title(f"{test}: time of one operation")
    axes.legend(fontsize=7)


def draw_limit(axes, rows, colour, value_of):
    limited = [row for row in rows if row.get("limit")]
    names = {row["limit_name"] for row in limited}
    if limited:
        axes.plot(
            [row["bytes"] for row in limited],
            [value_of(row) for row in limited],
            "--",
            color=colour,
            alpha=0.7,
            label="limit: " + (names.pop() if len(names) == 1 else "the best of each size"),
            lw=1,
        )


def draw_bandwidth(axes, test, series):
    for number, (label, rows) in enumerate(series.items()):
        moved = [row for row in rows if row.get("gb_per_s")]
        colour = f"C{number % 10}"
        axes.plot(
            [row["bytes"] for row in moved],
            [row["gb_per_s"] for row in moved],
            "o-",
            color=colour,
            label=label,
            ms=3,
        )
        copies = [row for row in moved if row.get("limit_name") not in LIMITS_WITHOUT_DATA]
        draw_limit(axes, copies, colour, lambda row: row["gb_per_s"] * row["median"] / row["limit"])
    size_axis(axes, [row for rows in series.values() for row in rows])
    axes.set_ylim(bottom=0)
    axes.set_ylabel("bandwidth, GB/s")
    axes.set_title(f"{test}: bandwidth")
    axes.legend(fontsize=7)


def draw_bars(axes, rows):
    axes.barh(range(len(rows)), [row["median"] for _, row in rows], color="C0", alpha=0.35)
    for number, (label, row) in enumerate(rows):
        text = f"{label}: {in_unit(row['median'], 'ns')}"
        axes.text(0.01, number, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7)
        if row.get("limit"):
            axes.plot([row["limit"]] * 2, [number - 0.4, number + 0.4], "r--", lw=1, alpha=0.6)
    axes.set_yticks([])
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.grid(True, axis="x", alpha=0.3)
    axes.xaxis.set_major_formatter(lambda value, _: in_unit(value, "ns"))
    axes.set_xlabel("time (dashed: the limit)")
    axes.set_title("rows without a size")


def draw_percentiles(axes, rows):
    """Of operations timed one by one: time against the share that takes longer."""
    shares = (("median", 0.5), ("p90", 0.1), ("p99", 0.01), ("p99_9", 0.001), ("p99_99", 0.0001))
    for number, (label, row) in enumerate(rows):
        points = [(share, row[name]) for name, share in shares if row.get(name)]
        size = f", {in_bytes(row['bytes'])}" if row.get("has_bytes") else ""
        axes.plot(*zip(*points), "o-", color=f"C{number % 10}", label=label + size, ms=3)
    axes.set_xscale("log")
    time_axis(axes)
    axes.invert_xaxis()
    axes.set_xticks([share for _, share in shares], ["p50", "p90", "p99", "p99.9", "p99.99"])
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.grid(True, alpha=0.3)
    axes.set_title("percentiles of single operations")
    axes.legend(fontsize=7)


def draw_matrix(axes, figure, row):
    """Bandwidth of each pair of ranks: rows send, columns receive."""
    cells = [[cell or math.nan for cell in line] for line in row["matrix_gb_per_s"]]  # 0: no traffic
    picture = axes.imshow(cells, cmap="viridis", vmin=0)
    axes.locator_params(integer=True)
    axes.set_xlabel("to rank")
    axes.set_ylabel("from rank")
    size = f", {in_bytes(row['bytes'])}" if row.get("has_bytes") else ""
    axes.set_title(f"{row['what']}{size}: GB/s of each pair")
    figure.colorbar(picture, ax=axes, shrink=0.8)


def panels_of(files):
    """A list of functions, each of which draws into axes."""
    by_size, others = series_of(files)
    panels = []
    for test, series in by_size.items():
        panels.append(lambda axes, _, test=test, series=series: draw_times(axes, test, series))
        if any(row.get("gb_per_s") for rows in series.values() for row in rows):
            panels.append(
                lambda axes, _, test=test, series=series: draw_bandwidth(axes, test, series)
            )
    for path, results in files:
        prefix = label_of(path, files)
        singles = [
            (prefix + row["what"], row) for row in results["rows"] if row.get("p99_99")
        ] if results.get("single") else []
        if singles:
            panels.append(lambda axes, _, rows=singles: draw_percentiles(axes, rows))
        for row in results["rows"]:
            if row.get("matrix_gb_per_s"):
                panels.append(lambda axes, figure, row=row: draw_matrix(axes, figure, row))
    if others:
        panels.append(lambda axes, _: draw_bars(axes, others))
    return panels


def subtitle_of(files):
    lines = []
    for path, results in files:
        machine = results.get("machine", {})
        lines.append(
            f"{path + ': ' if len(files) > 1 else ''}{machine.get('processor', 'unknown machine')}, "
            f"{machine.get('cores', '?')} cores, Linux {machine.get('kernel', '?')}, "
            f"{results.get('ranks', '?')} ranks, nixlrun {results.get('version', '?')}, "
            f"{results.get('date', '?')}"
        )
    return "\n".join(lines)


def draw(pyplot, files, title):
    panels = panels_of(files)
    if not panels:
        die("the results have no row with a time: there is nothing to draw")
    n_columns = 2 if len(panels) > 1 else 1
    n_rows = (len(panels) + n_columns - 1) // n_columns
    figure, all_axes = pyplot.subplots(
        n_rows, n_columns, figsize=(6.4 * n_columns, 4.2 * n_rows), squeeze=False
    )
    cells = [axes for line in all_axes for axes in line]
    for panel, axes in zip(panels, cells):
        panel(axes, figure)
    for axes in cells[len(panels) :]:
        axes.set_visible(False)
    height = figure.get_figheight()  # in inches; a place as a fraction would be over the panels
    figure.suptitle(title + "\n" + subtitle_of(files), fontsize=8, y=1 - 0.1 / height)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.25 * (1 + len(files)) / height))
    return figure


def as_html(figure, files, title):
    picture = io.StringIO()
    figure.savefig(picture, format="svg")
    svg = picture.getvalue()
    names = ("what", "ranks", "bytes", "unit", "median", "p99", "min", "limit_name", "limit", "ratio")
    lines = [
        "<tr>" + "".join(f"<td>{html.escape(str(row.get(n, '')))}</td>" for n in names) + "</tr>"
        for _, results in files
        for row in results["rows"]
    ]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    return (
        f"<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>\n"
        "<style>body{font-family:sans-serif}td,th{padding:.1em .6em;text-align:right}"
        "td:first-child,th:first-child{text-align:left}</style>\n"
        f"{svg[svg.index('<svg') :]}\n<table><tr>{head}</tr>\n" + "\n".join(lines) + "</table>\n"
    )


def plot(arguments):
    *paths, picture = arguments.files
    kind = next((kind for kind in KINDS if picture.endswith(kind)), None)
    if kind is None:
        die(f"the picture is '{picture}'; allowed: a file that ends in {', '.join(KINDS)}")
    if not paths:
        die("plot needs a file of results and one for the picture")
    pyplot = load_matplotlib()
    files = [(path, read_results(path)) for path in paths]
    figure = draw(pyplot, files, arguments.title)
    try:
        if kind == ".html":
            with open(picture, "w", encoding="utf-8") as file:
                file.write(as_html(figure, files, arguments.title))
        else:
            figure.savefig(picture, dpi=120)
    except OSError as error:
        die(f"'{picture}': {error.strerror}")
    return 0


# ---- the command line ----------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    def error(self, message):
        die(f"{message}; see `{PROGRAM} compare --help' and `{PROGRAM} plot --help'")


def percent(text):
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1000:
        die(f"--threshold is '{text}'; allowed: a number from 0 to 1000")
    return value


def main():
    parser = Parser(prog=PROGRAM)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("compare", help="say what changed between two results")
    one.add_argument("old", metavar="OLD.json", help="3 runs or more, one after another")
    one.add_argument("new", metavar="NEW.json", help="the same, measured in turns with them")
    one.add_argument(
        "--threshold", type=percent, default=5, metavar="PERCENT", help="smaller is no change (5)"
    )
    one.add_argument("--all", action="store_true", help="show the rows that did not change, too")
    one.add_argument("--check", action="store_true", help="exit 1 if a row is slower; 3 runs needed")
    one.set_defaults(run=compare)
    two = commands.add_parser("plot", help="draw results")
    two.add_argument("files", nargs="+", metavar="FILE", help="results in JSON, then the picture")
    two.add_argument("--title", default="nixl_bench", help="above the picture")
    two.set_defaults(run=plot)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(EXIT_USAGE)
