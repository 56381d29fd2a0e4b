#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares results of nixl_bench, and draws them.

    nixl_bench compare [--threshold PERCENT] [--all] [--check] OLD.json NEW.json
    nixl_bench plot [--title TEXT] RESULTS.json... PICTURE

It reads what `nixl_bench --json` prints; `-` is standard input. Pictures need matplotlib.
"""

import argparse
import html
import io
import json
import math
import os
import sys

PROGRAM = "nixl_bench"
KINDS = (".svg", ".png", ".html")
EXIT_SLOWER, EXIT_USAGE = 1, 2
OTHER_CORES = 1.4  # between the ways of a flag in two runs: the two cores are others
LIMITS_WITHOUT_DATA = ("flag", "futex")  # which have no bandwidth
DEBIAN_PYTHON = "/usr/bin/python3"  # has the distribution's packages, where another comes first


def die(text):
    print(f"{PROGRAM}: {text}", file=sys.stderr)
    sys.exit(EXIT_USAGE)


def read_results(path):
    """The object that one run has printed; what is not one ends the program with a line."""
    try:
        with sys.stdin if path == "-" else open(path, encoding="utf-8") as file:
            results = json.load(file)
    except OSError as error:
        die(f"'{path}': {error.strerror}")
    except ValueError as error:
        die(f"'{path}' is no JSON ({error}); write it by `{PROGRAM} ... --json >{path}'")
    rows = results.get("rows") if isinstance(results, dict) else None
    wanted = ("test", "what", "ranks", "bytes", "unit", "median")
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and all(name in row for name in wanted) for row in rows
    ):
        die(f"'{path}' is no result of {PROGRAM}; write it by `{PROGRAM} ... --json >{path}'")
    return results


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


def key_of(row):
    names = ("test", "what", "ranks", "bytes", "dst_offset", "src_offset", "unit")
    return tuple(row.get(name) for name in names)


def interval_of(row):
    """Where the true median lies, as far as one run can tell."""
    low, high = row.get("median_low"), row.get("median_high")
    return (low, high) if low is not None and high is not None else (row["median"],) * 2


def is_rate(row):
    return row["unit"] == "1/s"


def change_of(old, new):
    """new / old as times: above 1 is slower."""
    if min(old["median"], new["median"]) <= 0:
        return 1.0
    change = new["median"] / old["median"]
    return 1 / change if is_rate(old) else change


def limit_change_of(old, new):
    """The same of the machine's limit, which both runs measured beside; None without one."""
    if not old.get("limit") or not new.get("limit") or old["limit_name"] != new["limit_name"]:
        return None
    change = new["limit"] / old["limit"]
    return 1 / change if is_rate(old) else change


def machine_moved(old, new, threshold):
    """Did the cores lie otherwise to each other, or the limit move as the row did?"""
    flags = [row.get("flag_ns") or 0 for row in (old, new)]
    if min(flags) > 0 and max(flags) / min(flags) > OTHER_CORES:
        return True
    limit_change = limit_change_of(old, new)
    if limit_change is None or abs(math.log(limit_change)) < math.log(1 + threshold):
        return False
    return (limit_change > 1) == (change_of(old, new) > 1)


def verdict_of(old, new, threshold):
    """What has changed beyond noise: "slower", "faster", "machine" or "" for nothing."""
    change = change_of(old, new)
    (old_low, old_high), (new_low, new_high) = interval_of(old), interval_of(new)
    if abs(math.log(change)) < math.log(1 + threshold):
        return ""
    if new_low <= old_high and old_low <= new_high:
        return ""
    if machine_moved(old, new, threshold):
        return "machine"
    return "slower" if change > 1 else "faster"


def print_comparison(pairs, threshold, shows_all):
    counts = {"slower": 0, "faster": 0, "machine": 0, "": 0}
    print(f"{'':34} {'bytes':>8} {'old':>9} {'new':>9} {'ratio':>6} {'limit':>6}  verdict")
    for old, new in sorted(pairs, key=lambda pair: -change_of(*pair)):
        verdict = verdict_of(old, new, threshold)
        counts[verdict] += 1
        if not verdict and not shows_all:
            continue
        limit_change = limit_change_of(old, new)
        print(
            f"{new['what']:34.34} {in_bytes(new['bytes']) if new.get('has_bytes', True) else '':>8}"
            f" {in_unit(old['median'], old['unit']):>9} {in_unit(new['median'], new['unit']):>9}"
            f" {change_of(old, new):6.2f} {f'{limit_change:.2f}' if limit_change else '-':>6}"
            f"  {verdict or 'same'}"
        )
    print(
        f"\n{len(pairs)} rows: {counts['slower']} slower, {counts['faster']} faster, "
        f"{counts['machine']} as the machine itself (its limit, or its cores), {counts['']} the same within "
        f"{threshold:.0%} or within noise"
    )
    return counts["slower"]


def say_machines(old, new):
    for name in ("processor", "cores", "kernel"):
        values = [results.get("machine", {}).get(name) for results in (old, new)]
        if values[0] != values[1]:
            print(f"The machines differ: {name} {values[0]} and {values[1]}")
    for name in ("fresh", "single", "hosts"):
        values = [results.get(name) for results in (old, new)]
        if values[0] != values[1]:
            print(f"The runs differ: {name} {values[0]} and {values[1]}")


def compare(arguments):
    old, new = read_results(arguments.old), read_results(arguments.new)
    old_rows = {key_of(row): row for row in old["rows"]}
    new_rows = {key_of(row): row for row in new["rows"]}
    pairs = [(old_rows[key], row) for key, row in new_rows.items() if key in old_rows]
    if not pairs:
        die(f"'{arguments.old}' and '{arguments.new}' have no row in common")
    say_machines(old, new)
    n_slower = print_comparison(pairs, arguments.threshold / 100, arguments.all)
    alone = [len(rows) - len(pairs) for rows in (old_rows, new_rows)]
    if any(alone):
        print(f"only in '{arguments.old}': {alone[0]}, only in '{arguments.new}': {alone[1]}")
    return EXIT_SLOWER if arguments.check and n_slower else 0


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


def label_of(results, path, is_one_of_several):
    return f"{path}: " if is_one_of_several else ""


def series_of(files):
    """{test: {label: rows by size}} of rows that have sizes and times, and the rest."""
    by_size, others = {}, []
    for path, results in files:
        for row in results["rows"]:
            label = label_of(results, path, len(files) > 1) + row["what"]
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
    axes.set_xticks(sizes, [in_bytes(size) for size in sizes], rotation=45, ha="right")
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
    if limited:
        axes.plot(
            [row["bytes"] for row in limited],
            [value_of(row) for row in limited],
            "--",
            color=colour,
            alpha=0.7,
            label=f"limit: {limited[-1]['limit_name']}",
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
    labels = [label for label, _ in rows]
    axes.barh(labels, [row["median"] for _, row in rows], color="C0", height=0.6)
    for number, (_, row) in enumerate(rows):
        axes.text(row["median"], number, " " + in_unit(row["median"], "ns"), va="center", fontsize=7)
        if row.get("limit"):
            axes.plot([row["limit"]] * 2, [number - 0.4, number + 0.4], "k--", lw=1)
    axes.set_xscale("log")
    axes.margins(x=0.2)
    axes.invert_yaxis()
    axes.grid(True, axis="x", alpha=0.3)
    axes.set_xlabel("time, ns (dashed: the limit)")
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
    picture = axes.imshow(row["matrix_gb_per_s"], cmap="viridis", vmin=0)
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
        prefix = label_of(results, path, len(files) > 1)
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
    figure.suptitle(title + "\n" + subtitle_of(files), fontsize=8)
    height = figure.get_figheight()
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
    one.add_argument("old", metavar="OLD.json")
    one.add_argument("new", metavar="NEW.json")
    one.add_argument(
        "--threshold", type=percent, default=5, metavar="PERCENT", help="smaller is no change (5)"
    )
    one.add_argument("--all", action="store_true", help="show the rows that did not change, too")
    one.add_argument("--check", action="store_true", help="exit 1 if a row is slower")
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
